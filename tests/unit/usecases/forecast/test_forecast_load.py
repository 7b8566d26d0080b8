"""One scheduled check: what is read, decided, published and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from peaker.domain.issued import LoadPoints
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.past_runs import PastSteps
from peaker.usecases.forecast.forecast_load import ForecastReport, forecast_load

from peaker_contract.catalogue import states_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsUnavailable
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import Metric
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from peaker_contract.steps import Part
from sim import others
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, SOURCE, instance, orders, with_cluster
from tests.unit.domain.forecasting.loads import daily

PEAK = "i-000000000000f0001"
PARKED = "i-000000000000f0009"


@dataclass
class ScriptedHistory:
    values: Any
    step: int = 1800
    ends_late_by: int = 0
    # Points of the markers by namespace and name: (seconds before the end, value).
    seen: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        points = [
            (end.timestamp() - ago, value)
            for ago, value in self.seen.get(f"{metric.namespace} {metric.name}", [])
        ]
        inside = [one for one in points if start.timestamp() <= one[0] < end.timestamp()]
        return LoadPoints([at for at, _ in inside], [value for _, value in inside], metric.period_seconds)

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        last = end.timestamp() - self.ends_late_by * self.step
        times = [last - (len(self.values) - i) * self.step for i in range(len(self.values))]
        return LoadPoints(times, list(self.values), float(self.step))


@dataclass
class Published:
    values: dict[str, float] = field(default_factory=dict)

    def publish(self, cluster: str, at: datetime, values: Mapping[Metric, float]) -> None:
        assert cluster == "orders"
        self.values = dict(values)


@dataclass
class World:
    common: CalmPorts
    history: ScriptedHistory
    published: Published = field(default_factory=Published)
    remembered: others.ForecastRecords = field(default_factory=others.ForecastRecords)

    def check(self) -> ForecastReport:
        ports = replace(self.common, history=self.history, metrics=self.published, records=self.remembered)
        return forecast_load(ports, "orders")

    def checks(self, count: int) -> list[ForecastReport]:
        """One check after the other, as scheduled."""
        reports = []
        for _ in range(count):
            reports.append(self.check())
            self.common.clock.advance(
                minutes=self.common.clusters.settings("orders").forecast.schedule_minutes
            )
        return reports

    def serve(self, instance_id: str = PEAK) -> None:
        tags = {LOAD_TAG: "peak", OWNER_TAG: "local"}
        self.common.compute.add(instance(instance_id, tags=tags))
        self.common.endpoint.set(instance_id, TargetState.HEALTHY)
        holder = self.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=1))
        row = ReplicaRow("orders", instance_id, RUN_ID, ReplicaState.IN_SERVICE, NOON - timedelta(hours=9))
        self.common.ledger.set_replica(holder, row)
        self.common.lease.release(holder, NOON)


def world(scale: float = 1.0, **changes: Any) -> World:
    """28 days that end at noon; with scale 1 the load is about 100 to 170 in the next hours."""
    values = scale * daily(28.5, 1800)[: 28 * 48 + 24]
    return World(with_cluster(calm_ports(orders(**changes))), ScriptedHistory(values))


def test_a_shortage_is_published_with_its_reason() -> None:
    here = world(1.0)
    report = here.check()
    assert report.action == "scale_out"
    assert here.published.values["ReplicaShortage"] == report.shortage >= 1
    assert here.published.values["RequiredReplicas"] == report.required
    assert here.published.values["LeadTimeSeconds"] == report.lead_time_p90_seconds
    assert report.reason


def test_by_the_reactive_rule_only_the_load_of_now_counts_and_the_forecast_is_no_worse_for_it() -> None:
    here = world(1.0, forecast={"rule": "reactive", "schedule_minutes": 15})
    report = here.check()
    assert report.reason.endswith("; forecast.rule is reactive")
    assert report.reason.startswith("the load of ")
    assert (report.standing, here.published.values["ForecastDegraded"]) == ("normal", 0.0)


def test_all_figures_are_published_each_time() -> None:
    here = world(0.3)
    here.check()
    assert set(here.published.values) == {
        "RequiredReplicas", "ServingReplicas", "ReplicaShortage", "ReplicaSurplus", "ForecastLoad",
        "ForecastLoadP50", "ForecastLoadP95", "ForecastCoverage", "LeadTimeSeconds", "ScalingDecision",
        "CapacityPerReplica", "DecisionAlarm", "ForecastDegraded", "Observing",
    }  # fmt: skip
    assert here.published.values["ForecastLoadP50"] <= here.published.values["ForecastLoadP95"]
    assert here.published.values["ServingReplicas"] == 1


def test_one_run_per_shortage_however_often_it_is_checked() -> None:
    here = world(1.0)
    first = here.check()
    here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6))
    second = here.check()
    assert first.shortage - second.shortage == 1
    assert second.building == 1


def test_all_replicas_of_a_batch_are_being_built_until_each_serves() -> None:
    """Else the shortage that one run takes up whole is told again while it is at work."""
    here = world(2.0)
    first = here.check()
    holder = here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6))
    here.common.ledger.open_run(
        holder, RunRow(RUN_ID, "orders", "scale_out", NOON, ExecutionInput(cluster="orders", count=2))
    )
    assert here.check().building == 2
    here.common.ledger.settle(holder, Batch(wanted=3, deadline=NOON))
    second = here.check()
    assert (second.building, first.shortage - second.shortage) == (3, min(3, first.shortage))
    tags = {LOAD_TAG: "peak", OWNER_TAG: "local"}
    here.common.compute.add(instance(PEAK, tags=tags))
    here.common.endpoint.set(PEAK, TargetState.HEALTHY)
    row = ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.IN_SERVICE, NOON)
    here.common.ledger.set_replica(holder, row)
    assert here.check().building == 2


def test_a_member_of_a_batch_that_was_undone_is_missing_again() -> None:
    """Two of three were undone at 08:20, and the next round begins when the third has ended."""
    here = world(2.0)
    first = here.check()
    holder = here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6))
    ids = (RUN_ID, f"{RUN_ID}-2", f"{RUN_ID}-3")
    for number, run_id in enumerate(ids, 1):
        member = Member(batch=RUN_ID, number=number, state="at_work" if number == 1 else "gone")
        row = RunRow(run_id, "orders", "scale_out", NOON, ExecutionInput(cluster="orders"))
        of_member = replace(holder, run_id=run_id, batch=RUN_ID)
        here.common.ledger.open_run(holder if number == 1 else of_member, row)
        here.common.ledger.settle(holder if number == 1 else of_member, member)
    here.common.ledger.settle(holder, Batch(wanted=3, deadline=NOON, rounds=(ids,)))
    second = here.check()
    assert (second.building, first.shortage - second.shortage) == (1, 1)


def test_observe_mode_decides_but_publishes_no_shortage() -> None:
    here = world(1.0, mode="observe")
    report = here.check()
    assert report.shortage >= 1
    assert here.published.values["ReplicaShortage"] == 0
    assert here.published.values["ReplicaSurplus"] == 0


def test_a_surplus_takes_three_checks_that_survive_between_runs() -> None:
    here = world(0.2)
    here.serve()
    assert [one.surplus for one in here.checks(3)] == [0, 0, 1]
    assert here.published.values["ReplicaSurplus"] == 1


def test_a_check_that_is_called_again_is_no_further_low_check() -> None:
    """One tick of the schedule, tried three times, had published a surplus after three minutes (I8)."""
    here = world(0.2)
    here.serve()
    for _ in range(4):
        assert here.check().surplus == 0
        here.common.clock.advance(minutes=1)


def test_a_stale_metric_removes_nothing_and_says_so() -> None:
    here = world(0.2)
    here.serve()
    here.history.ends_late_by = 4
    reports = here.checks(4)
    assert [report.surplus for report in reports] == [0, 0, 0, 0]
    assert reports[-1].load_now is None
    assert here.published.values["ForecastDegraded"] == 1
    assert any("metric_stale" in reason for reason in reports[-1].reasons)


def test_a_new_cluster_is_no_alarm_while_its_load_is_short_or_has_not_come() -> None:
    here = world(observation_days=7, mode="act")
    here.history.values = []
    report = here.check()
    assert (report.outcome, report.awaits_load, report.history) == ("alarm", True, "0.0 of 3 days of load")
    assert (here.published.values["DecisionAlarm"], here.published.values["ForecastDegraded"]) == (0, 0)
    here.history.values = [100.0] * 24
    report = here.check()
    assert (report.standing, report.awaits_load, report.history) == (
        "reactive_only",
        False,
        "0.5 of 3 days of load",
    )
    assert here.published.values["ForecastDegraded"] == 0
    here.history.ends_late_by = 4
    assert here.check().awaits_load is False
    assert here.published.values["ForecastDegraded"] == 1, "the load was there and has stopped"


def test_a_new_cluster_whose_fleet_is_unknown_is_an_alarm() -> None:
    here = world(observation_days=7)
    here.history.values = []
    here.common.refuses(
        "endpoint.health", AwsUnavailable("elasticloadbalancing:DescribeTargetHealth: no answer")
    )
    here.check()
    assert here.published.values["DecisionAlarm"] == 1


# --- known events, costs, holds, capacity, observation -------------------------------------------------------


def event(**given: Any) -> dict[str, Any]:
    return {"from": "2026-11-21T12:00:00Z", "until": "2026-11-21T18:00:00Z", "reason": "sale", **given}


@pytest.mark.parametrize("asked", [{"min_replicas": 3}, {"load": 290.0}])
def test_a_calendar_event_is_built_for_and_named(asked: dict[str, Any]) -> None:
    report = world(0.3, calendar=[event(**asked)]).check()
    assert (report.action, report.required, report.shortage) == ("scale_out", 3, 2)
    assert "the calendar: sale" in report.reason
    assert report.numbers["calendar"] == 3


@pytest.mark.parametrize(
    ("metric", "value", "held"),
    [
        ("Peaker/local/Events Deploy", 1.0, "deploy"),
        ("Peaker/local/Events Deploy", 0.0, None),
        ("Peaker/local/Events Failover", 1.0, "failover"),
        ("Peaker/local/Events Other", 9.0, None),
        # Another environment of the account, with a cluster of the same name.
        ("Peaker/staging/Events Deploy", 1.0, None),
    ],
)
def test_after_trouble_nothing_is_removed_for_half_an_hour(
    metric: str, value: float, held: str | None
) -> None:
    here = world(0.2, holds={"minutes": 30})
    here.serve()
    here.history.seen = {metric: [(600.0, value)]}
    reports = here.checks(3)
    assert reports[-1].surplus == (0 if held else 1)
    if held:
        assert f"{held} 9 min ago" in reports[-1].reason
    here.history.seen = {metric: [(1900.0, value)]}
    assert here.checks(3)[-1].surplus == 1


def test_another_instance_in_the_place_of_the_source_is_a_failover() -> None:
    here = world(0.2)
    here.serve()
    here.check()
    assert here.remembered.states["orders"].source_id == SOURCE
    states = here.remembered.states
    states["orders"] = replace(states["orders"], source_id="i-0ther0000000000a0")
    reports = here.checks(3)
    assert "failover 0 min ago" in reports[0].reason
    assert reports[-1].surplus == 0
    here.common.clock.advance(minutes=31)
    assert here.checks(3)[-1].surplus == 1


def test_the_capacity_follows_the_knee_of_the_last_storage_proofs() -> None:
    here = world(0.55)
    assert here.check().capacity_per_replica == 100
    here.remembered.past = PastSteps(knee_shares=[0.1, 0.1, 0.9, 0.6, 0.6, 0.5, 0.7])
    report = here.check()
    assert report.capacity_per_replica == pytest.approx(60)
    assert "60% of their IOPS" in report.capacity_basis
    assert report.required > 1


def test_a_new_cluster_is_observed_for_a_week_with_a_score_and_then_acts() -> None:
    here = world(1.0, observation_days=7)
    first = here.check()
    assert first.shortage >= 1
    assert first.observing
    assert first.score == "no forecast could be scored yet"
    assert (here.published.values["ReplicaShortage"], here.published.values["Observing"]) == (0, 1)
    (issued,) = here.remembered.kept["orders"]
    end = NOON.timestamp()
    here.remembered.kept["orders"] = [
        replace(issued, issued_at_seconds=end - 86_400 + i, target_seconds=end - 1800 * i, p50=120.0, p95=1e9)
        for i in range(48)
    ]
    here.common.clock.advance(hours=12)
    day = here.check()
    assert day.observation == "observed for 0.5 of 7 days; observation_days: 0 ends it"
    assert "48 forecasts scored: 100% of the loads stayed under p95, p50 was off by" in day.score
    assert day.observation_days_left == pytest.approx(6.5)
    here.common.clock.advance(days=6.5)
    after = here.check()
    assert not after.observing
    assert here.published.values["ReplicaShortage"] == after.shortage >= 1


class TestClientsThatKeepTheirConnections:
    """200 connections on two old replicas never close; two newcomers get 5 % of a peer's reads. The load takes 3.6."""

    newcomers = ("i-000000000000f0001", "i-000000000000f0002")

    def here(self, **settings: Any) -> World:
        flat = ScriptedHistory(np.full(28 * 48, 300.0))
        here = World(with_cluster(calm_ports(orders(max_replicas=8, **settings))), flat)
        second = "i-000000000000b0002"
        here.common.compute.add(instance(second))
        here.common.endpoint.set(second, TargetState.HEALTHY)
        for instance_id in self.newcomers:
            here.serve(instance_id)
        self.old = (BASE, second)
        self.answer(here, old=145.0, new=7.0)
        return here

    def answer(self, here: World, old: float, new: float) -> None:
        here.common.readings.reads = {
            **{one: [old] * 15 for one in self.old},
            **{one: [new] * 15 for one in self.newcomers},
        }

    def look(self, here: World) -> ForecastReport:
        here.common.clock.advance(minutes=orders().forecast.schedule_minutes)
        return here.check()

    def test_the_peak_is_not_called_covered_and_no_third_one_is_built_for_it(self) -> None:
        here = self.here()
        here.history.values[-6:] = 360.0
        assert [self.look(here).outcome for _ in range(3)] == ["hold", "hold", "alarm"]
        report = self.look(here)
        assert (report.action, report.serving, report.shortage) == ("none", 4, 0)
        assert report.read_shares[self.newcomers[0]] == pytest.approx(7 / 145)
        assert report.few_reads == self.newcomers
        assert f"{self.newcomers[0]} takes 5% of a peer's reads" in report.reason
        assert here.published.values["DecisionAlarm"] == 1.0
        assert here.published.values["ReplicaShortage"] == 0.0

    def test_one_that_has_just_come_is_not_compared_yet(self) -> None:
        here = self.here()
        holder = here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=1))
        row = ReplicaRow(
            "orders", self.newcomers[0], RUN_ID, ReplicaState.IN_SERVICE, NOON + timedelta(minutes=5)
        )
        here.common.ledger.set_replica(holder, row)
        here.common.lease.release(holder, NOON)
        why = self.look(here).read_shares_unknown
        assert why == {self.newcomers[0]: "it serves for 10 min and is compared after 15"}


def parked(here: World) -> None:
    tags = {LOAD_TAG: "peak", OWNER_TAG: "local", RUN_TAG: RUN_ID}
    here.common.compute.add(replace(instance(PARKED, tags=tags), state="stopped"))
    holder = here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=1))
    row = ReplicaRow("orders", PARKED, RUN_ID, ReplicaState.PARKED, NOON)
    standing = Parking(NOON, None, None, None, "no limit is known")
    here.common.ledger.set_replica(holder, replace(row, parking=standing))
    here.common.lease.release(holder, NOON)


def test_a_peak_far_ahead_brings_no_parked_replica_back_at_the_third_low_check() -> None:
    """Two serve, one does now; an event takes three, as far off as a build, and a return takes minutes."""
    begins = {"from": "2026-11-21T13:45:00Z", "until": "2026-11-21T18:00:00Z"}
    here = world(0.2, calendar=[event(min_replicas=3, **begins)], forecast={"schedule_minutes": 5})
    here.serve()
    parked(here)
    here.remembered.past = builds_that_hydrate(5.0, return_speeds=[50.0])
    reports = here.checks(3)
    assert reports[0].lead_time_p90_seconds < 3600
    assert [(one.shortage, one.surplus) for one in reports] == [(0, 0)] * 3
    assert "no scale-in: the calendar: sale, takes 3 replicas" in reports[-1].reason
    here.common.clock.advance(minutes=75)
    assert here.check().shortage == 1


def builds_that_hydrate(hours: float, **past: Any) -> PastSteps:
    (state, *_) = states_of(Part.HYDRATION)
    return PastSteps(seconds={state: [3600.0 * hours] * 10}, hydrated_bytes=[1e9] * 10, **past)


def test_a_parked_replica_returns_before_a_peak_that_is_shorter_than_a_build_takes() -> None:
    """Two hours each evening. The build's look is past the peak when the return's comes to it."""
    here = world(forecast={"schedule_minutes": 30})
    day = np.full(48, 60.0)
    day[36:40] = 150.0
    here.history.values = np.tile(day, 29)[: 28 * 48 + 26]
    parked(here)
    here.remembered.past = builds_that_hydrate(4.0, return_speeds=[50.0] * 10)
    shortages = {}
    for number in range(26, 36):
        here.history.values = np.tile(day, 29)[: 28 * 48 + number]
        shortages[number / 2] = here.checks(1)[0].shortage
    assert (shortages[13.0], shortages[17.5]) == (0, 1)
    assert min(hour for hour, shortage in shortages.items() if shortage) >= 16.0, (
        "it would stand there for hours"
    )


def test_the_alarm_comes_as_early_as_the_build_that_the_plan_takes_for_a_return_far_behind() -> None:
    """The log of three days would be replayed for seven hours, and a run waits for six."""
    here = world(1.0)
    parked(here)
    here.common.clock.advance(hours=72)
    here.remembered.past = builds_that_hydrate(15.0, return_speeds=[10.0] * 10)
    assert here.check().lead_time_p90_seconds > 15 * 3600.0


def test_the_replica_that_serves_is_no_longer_being_built() -> None:
    here = world(1.0)
    here.serve()
    here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6))
    report = here.check()
    assert (report.serving, report.building) == (2, 0)


def test_issued_forecasts_are_kept_and_scored_once_their_time_has_come() -> None:
    here = world(0.3)
    report = here.check()
    assert report.scored == 0
    (issued,) = here.remembered.kept["orders"]
    assert issued.p50 <= issued.p95
    assert issued.target_seconds > NOON.timestamp()
    end = NOON.timestamp()
    here.remembered.kept["orders"] = [
        replace(issued, issued_at_seconds=end - 86_400 + i, target_seconds=end - 1800 * (i % 24), p95=1e9)
        for i in range(60)
    ]
    again = here.check()
    assert again.scored == 60
    assert again.coverage == 1.0
