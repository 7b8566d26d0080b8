"""`peaker backtest --event`: what knowing an event's days beforehand would have come to."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
import typer
from peaker_cli.backtest.command import EPILOG, backtest_command
from peaker_cli.deployment import takes_deployment
from typer.testing import CliRunner

from peaker_backtest.errors import BadInput
from peaker_backtest.event_gain import parse_events
from tests.unit.domain.forecasting.loads import START, daily, series
from tests.unit.domain.known_events.test_known_events import match

app = typer.Typer()
app.command(epilog=EPILOG)(takes_deployment(backtest_command))
HOURS = 3600
DAYS = (3, 8, 12, 18, 23, 29, 31, 36, 39)
STARTS = [f"2026-{1 + day // 31:02}-{1 + day % 31:02}T18:00Z" for day in DAYS]
Replayed = tuple[str, dict[str, Any], str]


def replay(folder: Path, factor: float, events: list[str], days: int = 42) -> Replayed:
    """So many days of hours; on the days above the load is `factor` times as high from 18:00 to 21:00."""
    values = daily(days, HOURS)
    within = tuple(day for day in DAYS if day < days)
    for first, end in match(within).steps(series(values, HOURS)):
        values[first:end] *= factor
    rows = [f"{START + HOURS * at:.0f},{value:.2f}" for at, value in enumerate(values)]
    load = folder / "reads.csv"
    load.write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")
    page, document = load.with_suffix(".html"), load.with_suffix(".json")
    arguments = [str(load), "--capacity", "40", "--replica-hour-usd", "0.5", "--json", str(document)]
    arguments += ["--html", str(page), *(word for one in events for word in ("--event", one))]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split()), json.loads(document.read_text()), page.read_text()


@pytest.fixture(scope="module")
def aware(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay(tmp_path_factory.mktemp("aware"), 2.5, [f"cup match={start}/180" for start in STARTS])


def test_a_pattern_that_helps_is_shown_with_and_without(aware: Replayed) -> None:
    printed, document, page = aware
    gain = document["events"]
    peaker = next(one for one in document["policies"] if one["name"] == "Peaker")
    assert gain["names"] == ["cup match"]
    assert gain["p95_coverage"] > 0.75 > 0.5 > gain["p95_coverage_without"]
    assert gain["p95_pinball_to_without"] < 0.5
    assert peaker["weighted_replica_hours"] < gain["without"]["weighted_replica_hours"]
    assert peaker["short_minutes"] < gain["without"]["short_minutes"]
    for line in gain["said"]:
        assert line in printed
        assert line in page
    assert "they help, name them (repeating_events of the cluster)" in gain["said"][0]
    assert f"{gain['without']['short_minutes']:,.0f} min" in gain["said"][1]
    assert re.search(r"known event cup match: \d earlier days, each foretold", gain["said"][2])


def test_the_chart_marks_the_days_of_the_event(aware: Replayed) -> None:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', aware[2], re.DOTALL)
    assert found is not None
    course = json.loads(found.group(1))
    marked = {
        round((course["start"] + step * HOURS - START) / HOURS)
        for first, _ in course["known"]
        for step in [first]
    }
    assert marked == {24 * day + 18 for day in DAYS if START + (24 * day + 21) * HOURS > course["start"]}
    assert all(end - first == 3 for first, end in course["known"])


def test_decisions_for_the_event_name_it(aware: Replayed) -> None:
    reasons = [one["reason"] for one in aware[1]["decisions"] if "cup match" in one["reason"]]
    assert reasons
    assert all(re.search(r"with cup match as on \d earlier days \(as far as x2", one) for one in reasons)


def test_days_on_which_nothing_was_are_to_be_left_out(tmp_path: Path) -> None:
    starts = [start for start, day in zip(STARTS, DAYS, strict=True) if day < 32]
    _, document, _ = replay(tmp_path, 1.0, [f"cup match={start}/180" for start in starts], days=32)
    gain = document["events"]
    assert "they do not help here, leave them out" in gain["said"][0]
    assert gain["p95_coverage"] == gain["p95_coverage_without"]
    peaker = next(one for one in document["policies"] if one["name"] == "Peaker")
    assert peaker["replica_hours"] == gain["without"]["replica_hours"]


def test_days_that_all_lie_elsewhere_are_told(tmp_path: Path) -> None:
    _, document, _ = replay(tmp_path, 1.0, ["sale=2027-01-01T00:00Z/60"], days=21)
    assert document["events"]["said"][0].endswith("none of their days was compared, so nothing can be said.")


def test_without_events_nothing_is_said_of_them(tmp_path: Path) -> None:
    printed, document, page = replay(tmp_path, 1.0, [], days=21)
    assert document["events"] is None
    assert "Known events" not in printed + page


def test_days_of_one_name_are_one_event_in_any_order() -> None:
    (found,) = parse_events(["a=b=2026-02-01T18:00/60", "a=b=2026-01-01T18:00+01:00/60"], UTC)
    assert (found.name, found.duration_seconds) == ("a=b", 3600.0)
    assert list(found.starts_seconds) == sorted(found.starts_seconds)
    assert found.starts_seconds[0] == START + 17 * HOURS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["cup match"], "give it as NAME=START/MINUTES"),
        (["=2026-01-01T18:00Z/60"], "give it as NAME=START/MINUTES"),
        (["cup=2026-01-01/60"], "the time is missing"),
        (["cup=01.01.2026 18:00/60"], "must be a date and a time"),
        (["cup=2026-13-01T18:00Z/60"], "is in no calendar"),
        (["cup=2026-01-01T18:00Z/10"], "greater than or equal to 30"),
        (["cup=2026-01-01T18:00Z/99999"], "less than or equal to 2880"),
        (["cup=2026-01-01T18:00Z/60", "cup=2026-01-02T18:00Z/90"], "lasts 60 and 90 min: give one length"),
        (["cup=2026-01-01T18:00Z/60", "cup=2026-01-01T18:30Z/60"], "60 min or more after the one before"),
        (["cup\x1b[2J=2026-01-01T18:00Z/1"], "cup\\x1b[2J"),
    ],
)
def test_an_event_that_cannot_be_read_is_named(given: list[str], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_events(given, UTC)
    assert says in str(refused.value)
    assert refused.value.field == "--event"
