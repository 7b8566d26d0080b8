"""One scheduled check: what is read, decided, published and remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import AwsUnavailable, UnknownCluster
from peaker.domain.fleet import ReplicaRow, ReplicaState
from peaker.domain.inventory import LOAD_TAG, OWNER_TAG, TargetHealth, TargetState
from peaker.domain.issued import CheckState, IssuedForecast, LoadPoints
from peaker.domain.lead_time import PastSteps
from peaker.ports import ForecastPorts
from peaker.usecases.forecast_load import ForecastReport, forecast_load

from tests.support.builders import RUN_ID, instance, orders, with_cluster
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.unit.forecasting.loads import daily

PEAK = "i-000000000000f0001"


@dataclass
class ScriptedHistory:
    values: Any
    step: int = 1800
    ends_late_by: int = 0

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        last = end.timestamp() - self.ends_late_by * self.step
        times = [last - (len(self.values) - i) * self.step for i in range(len(self.values))]
        return LoadPoints(times, list(self.values), float(self.step))


@dataclass
class Published:
    values: dict[str, float] = field(default_factory=dict)

    def publish(self, cluster: str, at: datetime, values: Mapping[str, float]) -> None:
        assert cluster == "orders"
        self.values = dict(values)


@dataclass
class Remembered:
    state: CheckState = field(default_factory=CheckState)
    kept: list[IssuedForecast] = field(default_factory=list)
    past: PastSteps = field(default_factory=PastSteps)

    def check_state(self, cluster: str) -> CheckState:
        return self.state

    def save_check_state(self, cluster: str, state: CheckState) -> None:
        self.state = state

    def save_issued(self, cluster: str, issued: IssuedForecast) -> None:
        self.kept.append(issued)

    def issued(self, cluster: str, since: datetime) -> list[IssuedForecast]:
        return [one for one in self.kept if one.issued_at_seconds >= since.timestamp()]

    def past_steps(self, cluster: str) -> PastSteps:
        return self.past


@dataclass
class World:
    common: FakePorts
    history: ScriptedHistory
    published: Published = field(default_factory=Published)
    remembered: Remembered = field(default_factory=Remembered)

    def check(self) -> ForecastReport:
        ports = ForecastPorts(self.common, self.history, self.published, self.remembered)
        return forecast_load(ports, "orders")

    def serve(self, instance_id: str = PEAK) -> None:
        tags = {LOAD_TAG: "peak", OWNER_TAG: "local"}
        self.common.compute.add(instance(instance_id, tags=tags))
        self.common.endpoint.set(instance_id, TargetState.HEALTHY)
        holder = self.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=1))
        row = ReplicaRow("orders", instance_id, RUN_ID, ReplicaState.IN_SERVICE, NOON - timedelta(hours=9))
        self.common.ledger.set_replica(holder, row)
        self.common.lease.release(holder)


def world(scale: float = 1.0, **changes: Any) -> World:
    """28 days that end at noon; with scale 1 the load is about 100 to 170 in the next hours."""
    values = scale * daily(28.5, 1800)[: 28 * 48 + 24]
    return World(with_cluster(fake_ports(orders(**changes))), ScriptedHistory(values))


def test_a_load_that_one_replica_serves_is_a_hold() -> None:
    report = world(0.3).check()
    assert (report.action, report.outcome, report.required, report.serving) == ("none", "hold", 1, 1)
    assert report.standing == "normal"


def test_a_shortage_is_published_with_its_reason() -> None:
    here = world(1.0)
    report = here.check()
    assert report.action == "scale_out"
    assert here.published.values["ReplicaShortage"] == report.shortage >= 1
    assert here.published.values["RequiredReplicas"] == report.required
    assert here.published.values["LeadTimeSeconds"] == report.lead_time_p90_seconds
    assert report.reason


def test_all_figures_are_published_each_time() -> None:
    here = world(0.3)
    here.check()
    assert set(here.published.values) == {
        "RequiredReplicas", "ServingReplicas", "ReplicaShortage", "ReplicaSurplus", "ForecastLoad",
        "ForecastLoadP50", "ForecastLoadP95", "ForecastCoverage", "LeadTimeSeconds", "ScalingDecision",
        "DecisionAlarm", "ForecastDegraded", "LoadAgeSeconds",
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


def test_a_lease_that_has_run_out_builds_nothing() -> None:
    here = world(1.0)
    here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=1))
    here.common.clock.advance(hours=2)
    assert here.check().building == 0


def test_the_replica_that_serves_is_no_longer_being_built() -> None:
    here = world(1.0)
    here.serve()
    here.common.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6))
    report = here.check()
    assert (report.serving, report.building) == (2, 0)


def test_observe_mode_decides_but_publishes_no_shortage() -> None:
    here = world(1.0, mode="observe")
    report = here.check()
    assert report.shortage >= 1
    assert here.published.values["ReplicaShortage"] == 0
    assert here.published.values["ReplicaSurplus"] == 0
    assert here.published.values["ScalingDecision"] == report.shortage


def test_a_surplus_takes_three_checks_that_survive_between_runs() -> None:
    here = world(0.2)
    here.serve()
    surpluses = []
    for _ in range(3):
        surpluses.append(here.check().surplus)
    assert surpluses == [0, 0, 1]
    assert here.published.values["ReplicaSurplus"] == 1


def test_a_stale_metric_removes_nothing_and_says_so() -> None:
    here = world(0.2)
    here.serve()
    here.history.ends_late_by = 4
    reports = [here.check() for _ in range(4)]
    assert [report.surplus for report in reports] == [0, 0, 0, 0]
    assert reports[-1].load_now is None
    assert here.published.values["ForecastDegraded"] == 1
    assert any("metric_stale" in reason for reason in reports[-1].reasons)


def test_no_history_at_all_is_an_alarm() -> None:
    here = world()
    here.history.values = []
    report = here.check()
    assert report.outcome == "alarm"
    assert here.published.values["DecisionAlarm"] == 1
    assert here.published.values["ReplicaShortage"] == 0
    assert "ForecastLoadP95" not in here.published.values


def test_a_metric_with_one_point_a_day_still_has_its_floor_and_is_not_forecast() -> None:
    here = world()
    here.history = ScriptedHistory([100.0] * 30, step=86_400)
    assert here.check().standing == "reactive_only"


def test_an_endpoint_that_does_not_answer_means_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world(1.0)

    def unavailable(settings: ClusterSettings) -> dict[str, TargetHealth]:
        raise AwsUnavailable("elasticloadbalancing:DescribeTargetHealth: no answer")

    monkeypatch.setattr(here.common.endpoint, "health", unavailable)
    report = here.check()
    assert (report.serving, report.outcome, report.shortage) == (None, "alarm", 0)


def test_the_forecast_looks_as_far_ahead_as_past_runs_took() -> None:
    here = world(0.3)
    quick = here.check().lead_time_p90_seconds
    here.remembered.past = PastSteps({"ReportPrewarm": [4 * 3600.0]}, [])
    slow = here.check().lead_time_p90_seconds
    assert slow >= 4 * 3600 > quick


def test_issued_forecasts_are_kept_and_scored_once_their_time_has_come() -> None:
    here = world(0.3)
    report = here.check()
    assert report.scored == 0
    (issued,) = here.remembered.kept
    assert issued.p50 <= issued.p95
    assert issued.target_seconds > NOON.timestamp()
    end = NOON.timestamp()
    here.remembered.kept = [
        replace(issued, issued_at_seconds=end - 86_400 + i, target_seconds=end - 1800 * (i % 24), p95=1e9)
        for i in range(60)
    ]
    again = here.check()
    assert again.scored == 60
    assert again.coverage == 1.0


def test_an_unknown_cluster_is_named() -> None:
    here = world()
    ports = ForecastPorts(here.common, here.history, here.published, here.remembered)
    with pytest.raises(UnknownCluster):
        forecast_load(ports, "payments")


def test_a_load_metric_that_is_a_utilisation_is_said_and_alarmed() -> None:
    here = world(0.3)
    metric = orders().load_metric.model_copy(update={"name": "CPUUtilization"})
    here.common = with_cluster(fake_ports(orders(load_metric=metric.model_dump())))
    report = here.check()
    assert report.standing == "degraded"
    assert here.published.values["ForecastDegraded"] == 1
    assert np.isfinite(here.published.values["ForecastLoadP95"])
