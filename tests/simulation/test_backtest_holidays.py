"""`peaker backtest --holidays`: what knowing a country's holidays would have come to, and what to write for it."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from peaker_cli.backtest.command import EPILOG, backtest_command
from peaker_cli.deployment import takes_deployment
from typer.testing import CliRunner

from environments.public_holidays import PublicHolidays
from peaker_backtest.errors import BadInput
from peaker_backtest.holidays.of_place import holidays_of, parse_holidays
from tests.unit.domain.forecasting.loads import START, daily, series

app = typer.Typer()
app.command(epilog=EPILOG)(takes_deployment(backtest_command))
HOURS, DAY = 3600, 24
# 1 January is the first day of the load; these are Berlin's from then on to the end of May 2026.
BERLIN = (
    date(2026, 3, 8),
    date(2026, 4, 3),
    date(2026, 4, 6),
    date(2026, 5, 1),
    date(2026, 5, 14),
    date(2026, 5, 25),
)
Replayed = tuple[str, dict[str, Any], str]


def replay(folder: Path, factor: float, *options: str, days: int = 150) -> Replayed:
    """So many days of hours from 1 January 2026 on, whose holidays have `factor` times the load of their weekday."""
    values = daily(days, HOURS)
    for day in BERLIN:
        first = (day - date(2026, 1, 1)).days
        if day.weekday() < 5:
            values[first * DAY : (first + 1) * DAY] *= factor
    # The newest ten weeks alone: two holidays to learn from, three to be compared on.
    kept = list(enumerate(values))[-80 * DAY :]
    rows = [f"{START + HOURS * at:.0f},{value:.2f}" for at, value in kept]
    load = folder / "reads.csv"
    load.write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")
    page, document = load.with_suffix(".html"), load.with_suffix(".json")
    arguments = [
        str(load),
        "--capacity",
        "10",
        "--replica-hour-usd",
        "0.5",
        "--days",
        "50",
        "--json",
        str(document),
    ]
    result = CliRunner().invoke(app, [*arguments, "--html", str(page), *options])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split()), json.loads(document.read_text()), page.read_text()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay(
        tmp_path_factory.mktemp("quiet"),
        0.6,
        "--holidays",
        "DE-BE",
        "--ordinary-holiday",
        "Women's Day",
    )


def test_holidays_that_help_are_shown_with_and_without(quiet: Replayed) -> None:
    printed, document, page = quiet
    gain = document["holidays"]
    peaker = next(one for one in document["policies"] if one["name"] == "Peaker")
    assert gain["place"] == "DE-BE"
    assert peaker["weighted_replica_hours"] < gain["without"]["weighted_replica_hours"]
    assert (
        "midnight to midnight in UTC: they help, name them (public_holidays of the cluster)"
        in gain["said"][0]
    )
    assert re.search(r"With them [\d,]+ replica-hours \(\$[\d,.]+\), short \d+ min", gain["said"][1])
    assert re.search(r"known event public holidays: \d earlier ", gain["said"][2])
    for line in gain["said"]:
        assert line in printed
        assert line.replace("'", "&#x27;") in page
    assert document["events"] is None


def test_what_to_write_is_a_setting_that_a_file_takes(quiet: Replayed) -> None:
    lines = quiet[1]["holidays"]["settings"]
    (name, block), = yaml.safe_load(lines).items()  # fmt: skip
    assert name == "public_holidays"
    taken = PublicHolidays.model_validate(block)
    assert (taken.country, taken.subdivision, taken.time_zone) == ("DE", "BE", "UTC")
    assert taken.ordinary == ("Women's Day",)
    assert " ".join(lines.split()) in quiet[0]


def test_decisions_on_a_holiday_name_it(quiet: Replayed) -> None:
    reasons = [one["reason"] for one in quiet[1]["decisions"]]
    assert any(re.search(r"with Ascension Day as on \d earlier ", one) for one in reasons)


def test_each_holiday_is_told_how_like_a_sunday_it_was(quiet: Replayed) -> None:
    told = quiet[1]["holidays"]["said"][3]
    shares = {
        name: int(share)
        for name, share in re.findall(r"([A-Z][a-z ]+[A-Z]?[a-z]+) 2026-\d\d-\d\d (\d+)%", told)
    }
    assert "newest first: Pentecost Monday 2026-05-25 " in told
    assert min(shares.values()) > 90


def test_holidays_that_are_days_like_others_change_nothing(tmp_path: Path) -> None:
    _, document, page = replay(tmp_path, 1.0, "--holidays", "DE-BE", "--days", "14")
    gain = document["holidays"]
    peaker = next(one for one in document["policies"] if one["name"] == "Peaker")
    assert ": they changed nothing here (public_holidays of the cluster)" in gain["said"][0]
    assert gain["settings"] is None
    assert peaker["replica_hours"] == gain["without"]["replica_hours"]
    assert "public_holidays:" not in page


def test_the_deployed_settings_hold_where_the_command_line_names_none() -> None:
    given = PublicHolidays(
        country="SA", time_zone="Asia/Riyadh", day_of_rest="saturday", ordinary=("Founding Day Holiday",)
    )
    of = holidays_of(given)
    assert (str(of.place), of.zone_name, of.day_of_rest) == ("SA", "Asia/Riyadh", 5)
    assert yaml.safe_load(of.settings_lines)["public_holidays"] == given.model_dump(
        exclude_none=True, mode="json"
    )


def test_a_load_has_the_holidays_of_its_own_years() -> None:
    of = parse_holidays("us", (), "America/New_York")
    assert of is not None
    (found,) = of.calendar(series(daily(10, HOURS), HOURS)).holidays[1:2]
    assert (found.name, found.weekday) == ("Martin Luther King Jr. Day", 0)
    assert found.start_seconds == datetime(2026, 1, 19, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("given", "ordinary", "zone", "says"),
    [
        ("DEU", (), None, "--holidays: country must be a country by its two letters, such as DE, got 'DEU'"),
        ("", (), None, "--holidays: country must be"),
        ("DE-", ("x",), None, "'x' is no public holiday of DE; there are"),
        ("DE-Bayern", (), None, "--holidays: subdivision must be one of BB, BE, BW, BY"),
        ("DE\x1b[2J", (), None, "\\x1b[2J"),
        ("US", ("Colombus Day",), None, "'Colombus Day' is no public holiday of US; there are Columbus"),
        (None, ("Columbus Day",), None, "--ordinary-holiday needs --holidays"),
        ("US", (), "America/Gotham", "--time-zone is America/Gotham"),
    ],
)  # fmt: skip
def test_holidays_that_are_none_are_named(
    given: str | None, ordinary: tuple[str, ...], zone: str | None, says: str
) -> None:
    with pytest.raises(BadInput) as refused:
        parse_holidays(given, ordinary, zone)
    assert says in str(refused.value)
    assert refused.value.field in {"--holidays", "--ordinary-holiday", "--time-zone"}
