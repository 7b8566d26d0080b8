"""`peaker backtest --latency-limit-ms`: the proposal in text, JSON and page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker_backtest.capacity.proposal import CapacityProposal, propose_capacity
from peaker_backtest.page import render_page
from peaker_backtest.report import run_backtest
from peaker_backtest.scenario import Options, make_scenario
from peaker_cli.app import app
from typer.testing import CliRunner

from tests.support.queueing import Service, watched

# By the half hour, so that a replay is quick.
SERVICE = Service(days=23, step_seconds=1800, reach=1.25, evening_hours=5.0)
SEEN = watched(SERVICE).slower(watched(SERVICE).day == 12, 3.0)
TOO_HIGH = 600.0
Replayed = tuple[str, dict[str, Any], str]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = tmp_path_factory.mktemp("capacity")
    load, page, document = folder / "reads.csv", folder / "page.html", folder / "report.json"
    rows = zip(SEEN.times, SEEN.load, SEEN.latency_ms, strict=True)
    lines = [f"{at:.0f},{reads:.2f},{ms:.3f}" for at, reads, ms in rows]
    load.write_text("\n".join(["time,reads,p95_ms", *lines]), encoding="utf-8")
    words = [
        "--load-column",
        "reads",
        "--measure-column",
        "p95_ms",
        "--serving",
        "4",
        "--latency-limit-ms",
        "20",
    ]
    words += ["--capacity", f"{TOO_HIGH:g}", "--replica-hour-usd", "0.5"]
    result = CliRunner().invoke(
        app, ["backtest", str(load), *words, "--html", str(page), "--json", str(document)]
    )
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split()), json.loads(document.read_text()), page.read_text()


def test_the_proposal_is_told_with_its_bounds_and_its_evidence(replayed: Replayed) -> None:
    printed, document, page = replayed
    capacity = document["capacity"]
    assert capacity["standing"] == "measured"
    assert 0.7 * SERVICE.capacity <= capacity["capacity"] <= SERVICE.capacity <= capacity["passed_at"]
    assert (capacity["now"], capacity["setting_of_now"]) == (TOO_HIGH, "too_high")
    assert "on 22 days" in printed
    assert "left out: 2026-09-13" in printed
    for line in capacity["said"]:
        assert line in printed
        assert line in page
    assert f"set capacity_per_replica: {capacity['capacity']:g} in the cluster" in printed
    assert "measure: read 1,104 points" in printed


def page_of(proposal: CapacityProposal | None) -> str:
    options = Options(quantile=0.9, capacity_per_replica=300.0, days=1)
    scenario = make_scenario(SEEN.past(SEEN.load).series(), options)
    return render_page(run_backtest("load", (), "load units", scenario, options, capacity=proposal))


def test_where_it_was_not_asked_for_nothing_is_said() -> None:
    assert "Capacity of a replica" not in page_of(None)


def test_an_unknown_capacity_is_told_with_its_reason() -> None:
    unknown = propose_capacity(Unknown("nobody counted"), SERVICE.limit, 300.0)
    assert "Capacity of a replica: unknown; nobody counted." in page_of(unknown)
