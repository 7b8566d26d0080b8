"""peaker doctor on read endpoint, metrics and what is deployed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from peaker.domain.forecasting import LoadSeries
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker_cli.doctor.command import Diagnosis, render
from peaker_cli.doctor.deployed import (
    CLUSTER_RULES,
    ENVIRONMENT_RULES,
    OPERATOR_ALARMS,
    STARTING_ALARMS,
    WORKFLOWS,
    DeployedFacts,
    look_at_deployed,
    names_of,
)
from peaker_cli.doctor.endpoint import EndpointFacts, look_at_endpoint
from peaker_cli.doctor.finding import Finding, NotTold
from peaker_cli.doctor.metrics import METRICS, MetricFacts, better_zone, look_at_metrics
from rich.console import Console

from peaker_contract.cluster import measured_load
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, BY_NAME, orders
from tests.unit.domain.forecasting.test_local_clock import AUTUMN, DAY, SPRING, STEP, by_local_hour

NLB = {
    "kind": "nlb", "port": 3306, "listener_port": 13306, "health_port": 9200, "target_group_arn": "arn:s",
    "warming_target_group_arn": "arn:w", "listener_arn": "arn:l",
}  # fmt: skip
SERVING = {
    "TargetGroupArn": "arn:s", "Port": 3306, "VpcId": "vpc-1", "HealthCheckProtocol": "HTTP",
    "HealthCheckPort": "9200", "HealthCheckPath": "/health", "LoadBalancerArns": ["arn:lb"],
}  # fmt: skip


def listener(port: int, *groups: str) -> dict[str, Any]:
    forward = {"TargetGroups": [{"TargetGroupArn": one} for one in groups]}
    return {"Port": port, "DefaultActions": [{"Type": "forward", "ForwardConfig": forward}]}


BALANCED = EndpointFacts(
    health={BASE: TargetHealth(TargetState.HEALTHY)},
    groups={"arn:s": SERVING, "arn:w": SERVING},
    listener=listener(13306, "arn:s", "arn:w"),
)
NAMED = EndpointFacts(
    health={BASE: TargetHealth(TargetState.HEALTHY)}, zone="orders.example", record_ttls=[30]
)


class TestTheReadEndpoint:
    def looked(self, **facts: Any) -> dict[str, Finding]:
        found = look_at_endpoint(orders(read_endpoint=NLB), replace(BALANCED, **facts), [BASE])
        return {one.check: one for one in found}

    def by_name(self, **facts: Any) -> dict[str, Finding]:
        found = look_at_endpoint(orders(read_endpoint=BY_NAME), replace(NAMED, **facts), [BASE])
        return {one.check: one for one in found}

    def test_a_sound_one_passes_in_every_line(self) -> None:
        assert {one.verdict.value for one in (*self.looked().values(), *self.by_name().values())} == {"pass"}

    @pytest.mark.parametrize(
        ("changes", "detail"),
        [
            ({"Port": 3307}, "at port 3307"),
            ({"HealthCheckPort": "9201"}, "port 9201"),
            ({"HealthCheckPort": "traffic-port"}, "traffic-port"),
            ({"HealthCheckPath": "/"}, "health at /"),
            ({"HealthCheckProtocol": "TCP"}, "by TCP"),
            ({"LoadBalancerArns": []}, "no load balancer"),
        ],
    )
    def test_a_target_group_that_was_changed(self, changes: dict[str, Any], detail: str) -> None:
        groups = {"arn:s": SERVING | changes, "arn:w": SERVING}
        line = self.looked(groups=groups)["target group"]
        assert (line.verdict.value, detail in line.detail) == ("refuse", True), line

    def test_no_deployment_changes_the_port_of_a_target_group(self) -> None:
        groups = {"arn:s": SERVING | {"Port": 3307}, "arn:w": SERVING}
        remedy = self.looked(groups=groups)["target group"].remedy
        assert "read_endpoint.port to 3307" in remedy
        assert "npx cdk deploy" not in remedy

    def test_what_is_gone_is_to_be_deployed_again(self) -> None:
        found = self.looked(groups={}, listener=None)
        for check in ("target group", "warming target group", "listener"):
            assert found[check].verdict.value == "refuse"
            assert "cdk deploy" in found[check].remedy

    @pytest.mark.parametrize("changed", [listener(3306, "arn:s", "arn:w"), listener(13306, "arn:s")])
    def test_a_listener_that_was_changed(self, changed: dict[str, Any]) -> None:
        assert self.looked(listener=changed)["listener"].verdict.value == "refuse"

    def test_a_base_replica_that_is_not_behind_it(self) -> None:
        line = self.looked(health={})[BASE]
        assert (line.verdict.value, "peaker register-base orders" in line.remedy) == ("refuse", True)

    def test_one_of_two_that_is_unhealthy_is_a_warning(self) -> None:
        health = {BASE: TargetHealth(TargetState.HEALTHY), "i-2": TargetHealth(TargetState.UNHEALTHY, "503")}
        facts = replace(BALANCED, health=health)
        found = {one.check: one for one in look_at_endpoint(orders(read_endpoint=NLB), facts, [BASE, "i-2"])}
        assert found["i-2"].verdict.value == "warn"
        assert "503" in found["i-2"].detail

    def test_one_in_a_zone_that_the_load_balancer_is_not_in(self) -> None:
        reason = "Target.NotInUse Target is in an Availability Zone that is not enabled for the load balancer"
        line = self.looked(health={BASE: TargetHealth(TargetState.UNUSED, reason)})[BASE]
        assert (line.verdict.value, "read_endpoint.subnets" in line.remedy) == ("refuse", True)

    def test_a_zone_that_is_gone_or_does_not_hold_the_name(self) -> None:
        assert self.by_name(zone=None)["hosted zone"].verdict.value == "refuse"
        assert self.by_name(zone="ders.example")["hosted zone"].verdict.value == "refuse"

    def test_records_of_another_ttl(self) -> None:
        line = self.by_name(record_ttls=[60])["record"]
        assert (line.verdict.value, line.remedy.endswith("INSTANCE --env local")) == ("warn", True)

    def test_what_is_not_told_is_unknown(self) -> None:
        told = NotTold("denied", "elasticloadbalancing:DescribeTargetGroups")
        found = self.looked(groups=told, listener=told, health=told)
        assert {one.verdict.value for one in found.values()} == {"unknown"}


def every(minutes: float, days: float, until: datetime = NOON) -> list[datetime]:
    step = timedelta(minutes=minutes)
    count = int(timedelta(days=days) / step)
    return [until - step * number for number in range(count, 0, -1)]


def test_on_eighty_columns_every_name_is_whole() -> None:
    name = "peaker-production-order-items-replica-check-event-not-delivered"
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(render(Diagnosis("orders", "local", "us-east-1", (METRICS.warns(name, name, "look"),))))
    assert capture.get().count(name) == 2


class TestTheLoadMetric:
    good = MetricFacts(
        now=NOON,
        similar=[{"Cluster": "orders"}],
        recent=every(30, 0.2),
        history=every(30, 20),
        history_period=timedelta(minutes=30),
    )

    def looked(self, **facts: Any) -> dict[str, Finding]:
        return {one.check: one for one in look_at_metrics(orders(), replace(self.good, **facts))}

    def test_a_sound_one_passes_in_every_line(self) -> None:
        assert {one.verdict.value for one in self.looked().values()} == {"pass"}

    def test_a_load_that_moved_with_another_clock_is_said(self) -> None:
        history = every(30, 20, datetime(2026, 10, 31, tzinfo=UTC))
        local = [one.astimezone(ZoneInfo("Europe/Paris")) for one in history]
        loads = [100.0 + 80 * (9 <= one.hour < 17) for one in local]
        facts = {"now": history[-1], "history": history, "recent": history[-3:], "loads": loads}
        line = self.looked(**facts)["time zone"]
        assert (line.verdict.value, "Europe/Berlin" in line.remedy) == ("warn", True)
        assert "time zone" not in self.looked(**facts | {"loads": [100.0] * len(loads)})

    @pytest.mark.parametrize(("minutes", "verdict"), [(89, "pass"), (91, "refuse")])
    def test_it_is_stale_after_three_periods(self, minutes: float, verdict: str) -> None:
        recent = [NOON - timedelta(minutes=minutes)]
        line = self.looked(recent=recent)["newest point"]
        assert (line.verdict.value, line.numbers["age_seconds"]) == (verdict, minutes * 60)

    @pytest.mark.parametrize(("days", "verdict"), [(2, "warn"), (10, "warn"), (15, "pass")])
    def test_history_is_counted_in_days(self, days: float, verdict: str) -> None:
        line = self.looked(history=every(30, days))["history"]
        assert (line.verdict.value, line.numbers["days"]) == (verdict, days)

    def test_points_that_come_less_often_than_the_settings_say(self) -> None:
        line = self.looked(history=every(60, 20))["period"]
        assert (line.verdict.value, "period_seconds to 3600" in line.remedy) == ("warn", True)

    def test_gaps(self) -> None:
        whole = every(30, 20)
        line = self.looked(history=whole[:300] + whole[600:])["period"]
        assert (line.verdict.value, "31%" in line.detail) == ("warn", True)

    @pytest.mark.parametrize("history", [every(60, 20), every(30, 20)[:300] + every(30, 20)[600:]])
    def test_of_peakers_own_measure_no_setting_is_named_but_its_log(self, history: list[datetime]) -> None:
        settings = orders(load_metric=measured_load(orders(), "local").model_dump())
        facts = replace(self.good, history=history, recent=[NOON - timedelta(days=1)])
        found = {one.check: one for one in look_at_metrics(settings, facts)}
        for check in ("period", "newest point"):
            assert "look at the log of check_replicas" in found[check].remedy
            assert "period_seconds" not in found[check].detail + found[check].remedy

    @pytest.mark.parametrize(("unit", "why"), [("Percent", "a utilisation"), ("Milliseconds", "a time")])
    def test_one_that_is_written_in_a_unit_of_no_load_is_refused(self, unit: str, why: str) -> None:
        line = self.looked(unit=unit)["load metric"]
        assert (line.verdict.value, f"is written in {unit}: {why}" in line.detail) == ("refuse", True)
        assert "set load_metric to a load" in line.remedy

    def test_what_is_not_told_is_unknown(self) -> None:
        told = NotTold("denied", "cloudwatch:GetMetricData")
        assert self.looked(unit=told)["load metric"].verdict.value == "unknown"
        assert self.looked(history=told)["load metric"].verdict.value == "unknown"
        assert self.looked(recent=told)["newest point"].verdict.value == "unknown"


class TestWhatIsDeployed:
    def changed(self, **facts: Any) -> dict[str, Finding]:
        names = names_of(orders(), (*STARTING_ALARMS, *OPERATOR_ALARMS))
        rules = [*names_of(orders(), CLUSTER_RULES), *(f"peaker-local-{one}" for one in ENVIRONMENT_RULES)]
        given: dict[str, Any] = {
            "workflows": [f"peaker-local-{one}" for one in WORKFLOWS],
            "alarms": {
                name: {"AlarmName": name, "StateValue": "OK", "AlarmActions": ["arn:aws:sns:topic"]}
                for name in names
            },
            "rules": dict.fromkeys(rules, True),
            "subscribers": 1,
            "data_key": None,
        }
        facts = {name: change(given[name]) if callable(change) else change for name, change in facts.items()}
        return {one.check: one for one in look_at_deployed(orders(), DeployedFacts(**{**given, **facts}))}

    def test_a_whole_deployment_passes_in_every_line(self) -> None:
        assert {one.verdict.value for one in self.changed().values()} == {"pass"}

    def test_what_is_missing_is_named(self) -> None:
        found = self.changed(workflows=[], alarms={}, rules={})
        for check in ("workflows", "alarms", "rules and schedules"):
            assert found[check].verdict.value == "refuse"
            assert "cdk deploy" in found[check].remedy

    @pytest.mark.parametrize(
        "change",
        [{"AlarmActions": []}, {"ActionsEnabled": False}, {"StateValue": "ALARM", "StateReason": "too old"}],
    )
    def test_alarms_that_nobody_hears_or_that_are_on(self, change: dict[str, Any]) -> None:
        name = "peaker-local-orders-forecast-stale"
        found = self.changed(alarms=lambda alarms: {**alarms, name: alarms[name] | change})
        assert found[name if "StateValue" in change else "who is paged"].verdict.value == "warn"

    @pytest.mark.parametrize(("subscribers", "verdict"), [(0, "warn"), (Unknown("denied"), "unknown")])
    def test_a_topic_whose_subscription_nobody_confirmed(self, subscribers: Any, verdict: str) -> None:
        assert self.changed(subscribers=subscribers)["who is paged"].verdict.value == verdict


ZONES = {name: ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney")}


@pytest.mark.parametrize("change", [SPRING, AUTUMN])
@pytest.mark.parametrize(
    ("readers", "setting", "found"),
    [
        ("Europe/Berlin", "UTC", "Europe/Berlin"),
        ("UTC", "Europe/Berlin", "UTC"),
        ("Europe/Madrid", "Europe/Berlin", None),
        ("UTC", "UTC", None),
    ],
)
def test_a_week_after_a_change_says_whose_clock_a_load_follows(
    change: float, readers: str, setting: str, found: str | None
) -> None:
    series = by_local_hour(change, 20, 5, readers)
    series.values[:] *= np.exp(np.random.default_rng(3).normal(0, 0.02, len(series.values)))
    assert better_zone(series, ZoneInfo(setting), ZONES) == found


@pytest.mark.parametrize(("days_before", "days_after"), [(20, 1), (6, 5)])
def test_too_little_about_a_change_says_nothing(days_before: int, days_after: int) -> None:
    series = by_local_hour(AUTUMN, days_before, days_after, "Europe/Berlin")
    assert better_zone(series, UTC, ZONES) is None


def test_a_load_without_a_rhythm_says_nothing() -> None:
    values = 100 * np.exp(np.random.default_rng(5).normal(0, 0.3, 25 * DAY))
    assert better_zone(LoadSeries(AUTUMN - 20 * 86_400, STEP, values), UTC, ZONES) is None
