"""`peaker backtest --leading`: what metrics that rise before the load does would have come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from peaker_cli.backtest.command import EPILOG, backtest_command
from peaker_cli.deployment import takes_deployment
from typer.testing import CliRunner

from tests.unit.domain.forecasting.loads import START
from tests.unit.domain.leading.drawn import Floats

app = typer.Typer()
app.command(epilog=EPILOG)(takes_deployment(backtest_command))
STEP, PER_HOUR, DAYS = 1800, 2, 63
Replayed = tuple[str, dict[str, Any], str]


def load_and_logins() -> tuple[Floats, Floats]:
    """Bursts of two to five hours at random times, which logins show two hours before."""
    random = np.random.default_rng(8)
    count = DAYS * 24 * PER_HOUR
    bursts = np.zeros(count + 48)
    at = 5.0
    while at * PER_HOUR < count:
        lasts = float(random.uniform(2, 5))
        bursts[int(at * PER_HOUR) : int((at + lasts) * PER_HOUR)] = random.uniform(0.6, 1.0)
        at += lasts + float(random.exponential(20))
    hours = np.arange(count) / PER_HOUR
    wave = np.exp(0.5 * np.cos((hours - 15) / 24 * 2 * np.pi))
    load = 200 * wave * np.exp(bursts[:count] + random.normal(0, 0.04, count))
    logins = 50 * wave * np.exp(bursts[4 : 4 + count] + random.normal(0, 0.06, count))
    return load, logins


def written(path: Path, values: Floats) -> Path:
    rows = [f"{START + STEP * at:.0f},{value:.2f}" for at, value in enumerate(values)]
    path.write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")
    return path


def replay(folder: Path, load: Floats, *leading: Path, days: int = 21) -> Replayed:
    page, document = folder / "page.html", folder / "report.json"
    arguments = [str(written(folder / "reads.csv", load)), "--capacity", "60", "--replica-hour-usd", "0.5"]
    arguments += ["--json", str(document), "--html", str(page), "--days", str(days), "--lead-minutes", "60"]
    arguments += [word for path in leading for word in ("--leading", str(path))]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split()), json.loads(document.read_text()), page.read_text()


def peaker_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["policies"] if one["name"] == "Peaker")
    return found


@pytest.fixture(scope="module")
def aware(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("leading")
    load, logins = load_and_logins()
    return replay(folder, load, written(folder / "logins.csv", logins))


def test_a_metric_that_helps_is_shown_with_and_without(aware: Replayed) -> None:
    printed, document, page = aware
    gain, peaker = document["leading"], peaker_of(document)
    assert gain["names"] == ["logins"]
    assert gain["p95_pinball_to_without"] < 0.8
    assert peaker["weighted_replica_hours"] < gain["without"]["weighted_replica_hours"]
    assert peaker["short_minutes"] < gain["without"]["short_minutes"]
    for line in gain["said"]:
        assert line in printed
        assert line in page
    assert "they help, name them (leading_metrics of the cluster)" in gain["said"][0]
    assert f"{gain['without']['short_minutes']:,.0f} min" in gain["said"][1]
    assert "leading metric logins: used (lag 120 min)" in gain["said"][2]


def test_how_its_file_was_read_is_told(aware: Replayed) -> None:
    assert "leading metric logins: read 3,024 points, every 30 min" in aware[0]


def test_decisions_that_it_leads_to_name_it(aware: Replayed) -> None:
    reasons = [one["reason"] for one in aware[1]["decisions"]]
    assert any("with logins above its usual, which leads by 120 min (as far as x" in one for one in reasons)


def test_a_useless_metric_changes_nothing(tmp_path: Path) -> None:
    load, logins = load_and_logins()
    noise = 50 * np.exp(np.random.default_rng(2).normal(0, 0.3, len(logins)))
    _, document, _ = replay(tmp_path, load, written(tmp_path / "noise.csv", noise), days=7)
    gain, peaker = document["leading"], peaker_of(document)
    assert gain["p95_pinball_to_without"] == 1.0
    assert peaker["replica_hours"] == gain["without"]["replica_hours"]
    assert "they change nothing here" in gain["said"][0]
    assert "leading metric noise: not used" in gain["said"][2]


def test_without_leading_metrics_nothing_is_said_of_them(tmp_path: Path) -> None:
    load, _ = load_and_logins()
    printed, document, page = replay(tmp_path, load, days=2)
    assert document["leading"] is None
    assert "Leading metrics" not in printed + page


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("timestamp,a,b\n1767225600,1,2\n1767227400,2,3\n1767229200,4,4\n", "leading metric"),
        ("nothing", "is one column"),
        ("timestamp,value\n1767225600,1\n1767240000,2\n1767254400,2\n", "a point every 240 min"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str, says: str) -> None:
    load, _ = load_and_logins()
    bad = tmp_path / "bad.csv"
    bad.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(app, [str(written(tmp_path / "reads.csv", load)), "--leading", str(bad)])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_more_than_three_metrics_and_standard_input_are_refused(tmp_path: Path) -> None:
    load = written(tmp_path / "reads.csv", load_and_logins()[0])
    four = [word for _ in range(4) for word in ("--leading", str(load))]
    refused = CliRunner().invoke(app, [str(load), *four])
    assert refused.exit_code == 2
    assert "--leading is given 4 times; up to 3 are used" in " ".join(refused.output.split())
    piped = CliRunner().invoke(app, [str(load), "--leading", "-"])
    assert piped.exit_code == 2
    assert "--leading takes a file" in " ".join(piped.output.split())
