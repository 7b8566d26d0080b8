"""`peaker backtest --latency-limit-ms`: the proposal in text, JSON and page, and what it would have changed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker_cli.app import app
from typer.testing import CliRunner

from peaker_backtest.capacity.effect import CapacityFinding
from peaker_backtest.capacity.observations import observe
from peaker_backtest.capacity.proposal import propose_capacity
from peaker_backtest.page import render_page
from peaker_backtest.report import BacktestReport, run_backtest
from peaker_backtest.scenario import Options, make_scenario
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


def chart(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="capacity-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def test_the_proposal_is_told_with_its_bounds_and_its_evidence(replayed: Replayed) -> None:
    printed, document, page = replayed
    capacity = document["capacity"]
    assert capacity["standing"] == "measured"
    assert 0.7 * SERVICE.capacity <= capacity["capacity"] <= SERVICE.capacity <= capacity["passed_at"]
    assert (capacity["now"], capacity["setting_of_now"]) == (TOO_HIGH, "too_high")
    assert capacity["evidence"]["days"] == 22
    assert [one["day"] for one in capacity["evidence"]["odd_days"]] == ["2026-09-13"]
    for line in capacity["said"]:
        assert line in printed
        assert line in page
    assert f"set capacity_per_replica: {capacity['capacity']:g} in the cluster" in printed
    assert "measure: read 1,104 points" in printed


def test_a_capacity_that_was_too_high_costs_less_and_is_short(replayed: Replayed) -> None:
    effect = replayed[1]["capacity"]["effect"]
    assert effect["proposed"]["dollars"] > effect["now"]["dollars"]
    assert effect["proposed"]["short_minutes"] < effect["now"]["short_minutes"]
    peaker = next(one for one in replayed[1]["policies"] if one["name"] == "Peaker")
    assert effect["now"]["replica_hours"] == peaker["replica_hours"]
    assert effect["now"]["short_minutes"] > peaker["short_minutes"], (
        "by what a replica serves, not by what is set"
    )


def test_the_chart_has_the_steps_the_fit_the_limit_and_both_capacities(replayed: Replayed) -> None:
    data, capacity = chart(replayed[2]), replayed[1]["capacity"]
    assert len(data["points"]) == capacity["evidence"]["observations"]
    assert len(data["odd"]) == 48
    assert (data["limit"], data["now"], data["capacity"]) == (20.0, TOO_HIGH, capacity["capacity"])
    loads, measures = zip(*data["fit"], strict=True)
    assert list(loads) == sorted(loads)
    assert list(measures) == sorted(measures)
    assert min(measures) < data["limit"] < max(measures)


def test_the_other_policies_and_settings_are_those_of_a_backtest_without_it(replayed: Replayed) -> None:
    names = [one["name"] for one in replayed[1]["policies"]]
    assert not [name for name in names if "proposed" in name]
    assert len(replayed[1]["settings"]["tried"]) == 26


def a_report(finding: CapacityFinding | None) -> BacktestReport:
    options = Options(quantile=0.9, capacity_per_replica=300.0, days=1)
    scenario = make_scenario(SEEN.past(SEEN.load).series(), options)
    return run_backtest("load", (), "load units", scenario, options, capacity=finding)


def test_where_it_was_not_asked_for_nothing_is_said() -> None:
    page = render_page(a_report(None))
    assert "Capacity of a replica" not in page
    assert "capacity-data" not in page


def test_an_unknown_capacity_is_told_without_a_chart() -> None:
    unknown = propose_capacity(Unknown("nobody counted"), SERVICE.limit, 300.0)
    page = render_page(a_report(CapacityFinding(unknown, None)))
    assert "Capacity of a replica: unknown; nobody counted." in page
    assert "capacity-data" not in page


def test_the_chart_s_data_cannot_end_their_element() -> None:
    seen = observe(SEEN.past(SEEN.load), SEEN.past(SEEN.latency_ms), 4)
    report = a_report(CapacityFinding(propose_capacity(seen, SERVICE.limit, None), seen))
    hostile = replace(report, load_unit="</script><script>alert(1)</script><!--")
    assert render_page(hostile).count("</script>") == render_page(report).count("</script>")
    assert chart(render_page(hostile))["load_unit"] == hostile.load_unit


def test_of_many_steps_the_telling_ones_are_drawn() -> None:
    every = watched(replace(SERVICE, step_seconds=300))
    seen = observe(every.past(every.load), every.past(every.latency_ms), 4)
    data = chart(render_page(a_report(CapacityFinding(propose_capacity(seen, SERVICE.limit, None), seen))))
    assert len(data["points"]) <= 3000 < len(seen.loads)
    assert max(load for load, _ in data["points"]) == pytest.approx(seen.loads.max(), rel=1e-3)
    assert max(ms for _, ms in data["points"]) == pytest.approx(seen.measures.max(), rel=1e-3)
