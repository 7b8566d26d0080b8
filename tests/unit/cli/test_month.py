"""A month's bill: equal to its receipts, each hour and dollar by hand."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from peaker.domain.issued import LoadPoints
from peaker.domain.prices.price_table import US_EAST_1, usd, volumes_hourly
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker_cli.month.bill import BaseReplica, Month, bill
from peaker_cli.month.command import _span, render
from peaker_cli.month.gather import _base_replica, _load
from peaker_cli.month.page import render_page
from peaker_cli.month.rows import savings
from peaker_cli.month.stretches import parked_times, stretches_of
from rich.console import Console
from typer import BadParameter

from tests.support.builders import data_volumes_of, instance, orders
from tests.support.kept_metrics import KeptMetrics
from tests.support.simulated_month import END, START, compared_month, simulated

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EIGHT = datetime(2026, 11, 3, 8, tzinfo=UTC)


def receipt(operation: str, hours: float, at: float, **more: Any) -> dict[str, Any]:
    """Of i-1 at a dollar an hour and two dollars once, `at` hours after eight, when it had run for so many."""
    return {
        "operation": operation, "run_id": more.pop("run_id", "run-1"), "outcome": "succeeded",
        "finished_at": (EIGHT + timedelta(hours=at)).isoformat(),
        "replica": {"instance_id": "i-1", "built_by": "run-1"},
        "cost": {"replica_hours": hours, "hourly": 1.0, "once": 2.0, "so_far": round(hours + 2.0, 4)},
        **more,
    }  # fmt: skip


def retired(at: float) -> dict[str, ReplicaRow]:
    """The ledger's row of i-1 that went so many hours after eight."""
    return {"i-1": ReplicaRow("orders", "i-1", "run-1", ReplicaState.RETIRED, EIGHT + timedelta(hours=at))}


def parked_after(hours: float, at: float) -> dict[str, Any]:
    return receipt("scale_in", hours, at, run_id="in", parking={"action": "park", "parked_hourly_usd": 0.1})


def month(*receipts: dict[str, Any], **changes: Any) -> Month:
    rows = changes.pop("rows", {})
    stretches = stretches_of(receipts, rows)
    parked = parked_times(receipts, stretches, rows)
    base = (BaseReplica("i-base", START, 0.5),)
    return replace(Month("orders", START, END, stretches, parked, base, (), 100.0), **changes)


def load(*values: float) -> Iterator[tuple[datetime, float]]:
    """An hour each from eight on."""
    return ((EIGHT + timedelta(hours=number), value) for number, value in enumerate(values))


@pytest.mark.parametrize("seed", range(2))
def test_a_month_is_equal_to_its_receipts_and_to_the_truth_to_the_cent(seed: int) -> None:
    found = compared_month(seed)
    assert (found.from_receipts_cents, found.from_truth_cents, found.parked_cents) == (0, 0, 0)
    assert found.hours <= 0.01


def test_the_hours_of_a_replica_count_once_though_two_receipts_have_them() -> None:
    found = bill(month(receipt("scale_out", 1, 1), receipt("scale_in", 5, 5, run_id="in")))
    assert found["peak"] == {"stretches": 1, "replica_hours": 5, "usd": 7.0, "failed_usd": 0.0}
    assert found["receipts"]["usd"] == 7.0


def test_a_replica_that_still_runs_is_paid_until_the_months_end() -> None:
    found = bill(month(receipt("scale_out", 1, 1), until=EIGHT + timedelta(hours=4)))
    assert found["peak"]["usd"] == 6.0
    assert found["receipts"] == {"stretches": 0, "usd": 0.0, "open_or_across_the_month_usd": 6.0}


def test_a_replica_that_the_sweep_retired_is_paid_until_then() -> None:
    found = bill(month(receipt("scale_out", 1, 1), rows=retired(7)))
    assert (found["peak"]["replica_hours"], found["peak"]["usd"]) == (7, 9.0)
    assert found["peaks"][0]["until"] == "2026-11-03T15:00:00.000Z"
    returned = receipt("scale_out", 1, 9, run_id="back")
    assert bill(month(returned, rows=retired(7)))["peaks"][0]["until"] is None, "its row is older"


def test_of_a_replica_that_began_before_the_month_only_this_months_hours_count() -> None:
    receipts = (receipt("scale_out", 1, 1), receipt("scale_in", 5, 5, run_id="in"))
    assert bill(month(*receipts, start=EIGHT + timedelta(hours=2)))["peak"]["usd"] == 3.0


def test_a_build_that_failed_costs_and_serves_nobody() -> None:
    found = bill(month(receipt("scale_out", 1.5, 1.5, outcome="rolled_back")))
    assert (found["peak"]["usd"], found["peak"]["failed_usd"], found["peak"]["stretches"]) == (3.5, 3.5, 0)
    assert found["always_on"]["peak_replicas"] == 0


def members(*states: str) -> list[dict[str, Any]]:
    return [{"run_id": name, "state": state} for name, state in zip(("in", "in-2"), states, strict=True)]


def test_of_a_batch_that_ended_partly_each_replica_counts_as_it_went_itself() -> None:
    """The batch's receipt is that of its first member: gone in the first story, put back in the second."""
    built = receipt("scale_out", 1, 1)
    ended = receipt("scale_in", 5, 5, run_id="in", outcome="partly", members=members("gone", "in_service"))
    assert bill(month(built, ended))["peak"]["replica_hours"] == 5
    stayed = receipt("scale_in", 5, 5, run_id="in", outcome="partly", members=members("in_service", "gone"))
    until = EIGHT + timedelta(hours=9)
    assert bill(month(built, stayed, until=until))["peak"]["replica_hours"] == 9


def test_a_member_that_serves_has_not_failed_though_its_batch_came_partly() -> None:
    came = [{"run_id": "run-1", "state": "in_service"}, {"run_id": "run-1-2", "state": "gone"}]
    found = bill(
        month(receipt("scale_out", 1, 1, outcome="partly", members=came), until=EIGHT + timedelta(hours=4))
    )
    assert (found["peak"]["usd"], found["peak"]["failed_usd"]) == (6.0, 0.0)


def test_it_stands_parked_until_it_returns_or_is_retired() -> None:
    built, parked = receipt("scale_out", 1, 1), parked_after(2, 2)
    back = receipt("scale_out", 0.2, 10.2, run_id="back")
    assert bill(month(built, parked, back))["parked"] == {"replica_hours": 8.0, "usd": 0.8}
    assert bill(month(built, parked, rows=retired(7)))["parked"]["replica_hours"] == 5.0
    assert bill(month(built, parked, until=EIGHT + timedelta(hours=3)))["parked"]["replica_hours"] == 1.0


def test_idle_is_what_fewer_replicas_would_have_carried() -> None:
    """One base and one peak replica of 100 each from eight to twelve; only at nine and ten the load takes both."""
    ran = (receipt("scale_out", 0.1, 0.1), receipt("scale_in", 4, 4, run_id="in"))
    found = bill(month(*ran, load=tuple(load(80, 150, 150, 80, 80))))
    assert found["idle"] == {"replica_hours": 2.0, "usd": 2.0, "why_unknown": None}
    why = "CloudWatch has no point of the load"
    assert bill(month(*ran))["idle"] == {"replica_hours": None, "usd": None, "why_unknown": why}


def test_a_peak_has_its_price_per_thousand_queries() -> None:
    """It serves half of 100 a second from eight on, for four hours: 720 thousand, for six dollars."""
    ran = (receipt("scale_out", 0, 0), receipt("scale_in", 4, 4, run_id="in"))
    (peak,) = bill(month(*ran, load=tuple(load(100, 100, 100, 100, 100))))["peaks"]
    assert peak["thousand_queries"] == 720
    assert peak["usd_per_thousand_queries"] == pytest.approx(6 / 720, abs=1e-6)


def test_a_base_replica_carries_load_from_its_start_on() -> None:
    """A second one comes at ten: until then the peak replica is needed, and bears half of the load."""
    ran = (receipt("scale_out", 0, 0), receipt("scale_in", 4, 4, run_id="in"))
    base = (BaseReplica("i-base", START, 0.5), BaseReplica("i-late", EIGHT + timedelta(hours=2), 0.5))
    found = bill(month(*ran, load=tuple(load(150, 150, 150, 150, 150)), base=base))
    assert found["idle"]["replica_hours"] == 2.0
    assert found["peaks"][0]["thousand_queries"] == 900


def test_a_base_replica_that_is_stopped_costs_its_volumes_and_carries_nothing() -> None:
    storage: Any = SimpleNamespace(volumes_of_instance=data_volumes_of)
    states = {"i-base": "running", "i-still": "stopped"}
    runs, still = (
        _base_replica(instance(name, state=state, launched_at=START), storage, US_EAST_1)
        for name, state in states.items()
    )
    assert still.hourly == usd(volumes_hourly(data_volumes_of("i-still"), US_EAST_1), 6)
    assert runs.hourly == pytest.approx((still.hourly or 0) + US_EAST_1.instance_hourly["r6i.large"])
    ran = (receipt("scale_out", 0.1, 0.1), receipt("scale_in", 4, 4, run_id="in"))
    found = bill(month(*ran, load=tuple(load(150, 150, 150)), base=[runs, still]))
    assert (found["idle"]["replica_hours"], found["base"]["replica_hours"]) == (0, 720)


def test_always_on_is_the_most_that_ran_at_one_time_all_month() -> None:
    other = receipt("scale_out", 1, 2, run_id="run-2", replica={"instance_id": "i-2", "built_by": "run-2"})
    found = bill(month(receipt("scale_out", 1, 1), other))
    assert (found["always_on"]["peak_replicas"], found["always_on"]["usd"]) == (2, 2 * 720.0)
    half = bill(month(receipt("scale_out", 1, 1), other, checked_since=START + timedelta(hours=360)))
    assert half["always_on"] == {"peak_replicas": 2, "usd": 2 * 360.0, "from": "2026-11-16T00:00:00.000Z"}


def test_what_the_instance_cannot_carry_is_wasted_by_the_hour_and_a_cheaper_setting_says_so() -> None:
    checks = [{"numbers": {"wasted_usd_month": 73.0}}]
    found = bill(
        month(receipt("scale_out", 1, 1, plan={"checks": checks}), receipt("scale_in", 5, 5, run_id="in"))
    )
    assert found["mismatch_usd"] == 0.5
    assert found["cheaper"] == [
        {"setting": "volumes: iops, throughput_mib_per_s", "usd": 0.5,
         "why": "volumes with what the instance carries, as the plan's checks say"}
    ]  # fmt: skip


def test_a_build_at_the_default_rate_that_was_in_time_for_the_load_would_have_been_cheaper() -> None:
    def option(rate: int | None, usd: float, p90: float) -> dict[str, Any]:
        return {"action": "build", "rate_mib_per_s": rate, "usd": usd, "p90_seconds": p90}

    choice = {"options": [option(None, 2, 3000), option(300, 5, 600)], "index": 1}
    plan = {"planned_at": EIGHT.isoformat(), "choice": choice}
    needed = {"serving_at": None, "load_crossed_at": (EIGHT + timedelta(hours=1)).isoformat()}
    built = receipt("scale_out", 1, 1, plan=plan, forecast_lead=needed)
    (found,) = bill(month(built))["cheaper"]
    assert (found["setting"], found["usd"]) == ("initialization_rate_mib_per_s", 3.0)
    assert found["why"].startswith("1 build was needed later")
    assert bill(month(built, start=EIGHT + timedelta(minutes=30)))["cheaper"] == [], (
        "it began before the month"
    )
    needed["load_crossed_at"] = (EIGHT + timedelta(minutes=40)).isoformat()
    assert bill(month(receipt("scale_out", 1, 1, plan=plan, forecast_lead=needed)))["cheaper"] == []


def test_an_unknown_price_is_no_zero() -> None:
    cost = {"replica_hours": 1, "hourly": None, "once": None, "so_far": None}
    found = bill(month(receipt("scale_out", 1, 1, cost=cost)))
    assert (found["peak"]["usd"], found["total_usd"]) == (None, None)


def test_what_is_no_month_is_refused_with_one_that_is() -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    assert _span("2026-12", now) == (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    for wrong in ("2026-13", "november", "2026-1", "1999-01"):
        with pytest.raises(BadParameter, match="such as 2026-11"):
            _span(wrong, now)


def test_page_and_terminal_show_the_same_rows() -> None:
    read = simulated(1).as_month()
    document = bill(read)
    text = render_page(read, document)
    console = Console(width=160, record=True, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        console.print(render(document))
    for shown in (f"${document['peak']['usd']:,.2f}", f"${document['total_usd']:,.2f}"):
        assert shown in text
        assert shown in captured.get()
    assert savings(document)[1] in text
    assert savings(document)[1] in captured.get().replace("\n", " ")


def read_load(period: int, start: datetime, until: datetime) -> LoadPoints:
    """Of a metric that is written each minute, as CloudWatch has it in the middle of November."""
    seconds = range(int(start.timestamp()), int(until.timestamp()), 60)
    cloudwatch = KeptMetrics([(at, 600.0) for at in seconds], now=NOW)
    control: Any = SimpleNamespace(client=lambda _: cloudwatch, clock=SimpleNamespace(now=lambda: NOW))
    metric = {
        "namespace": "Shop",
        "name": "Reads",
        "dimensions": {},
        "statistic": "Average",
        "period_seconds": period,
    }
    return _load(control, orders(load_metric=metric), start, until)


@pytest.mark.parametrize(("days_ago", "period"), [(10, 60), (15, 300), (20, 300), (63, 3600), (80, 3600)])
def test_the_load_is_read_in_the_shortest_period_that_is_kept_of_the_whole_time(
    days_ago: int, period: int
) -> None:
    """A month by the minute, asked for on the 21st, had its last 15 days only, and one of August nothing."""
    start = NOW - timedelta(days=days_ago)
    found = read_load(60, start, start + timedelta(days=5))
    assert found.period_seconds == period
    assert (found.times_seconds[0], len(found.times_seconds)) == (start.timestamp(), 5 * 86_400 / period)


def test_hours_before_the_first_point_of_the_load_make_the_idle_ones_unknown() -> None:
    late = [(at + timedelta(hours=2), value) for at, value in load(150.0, 150.0)]
    found = bill(month(receipt("scale_out", 4, 4), load=late, load_period_seconds=3600))
    assert (found["idle"]["replica_hours"], found["idle"]["usd"]) == (None, None)
    assert found["peaks"][0]["thousand_queries"] is None
    assert found["load"] == {"period_seconds": 3600, "from": "2026-11-03T10:00:00.000Z"}
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render(found))
    said = console.export_text()
    assert (
        "idle hours: CloudWatch has the load from 2026-11-03 10:00 on alone, and peak replicas ran before"
        in said
    )
    assert "load: by the hour" in said
