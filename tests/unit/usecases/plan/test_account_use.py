"""A plan under the account's quotas, which are asked once."""

from __future__ import annotations

from typing import Any

import pytest
from peaker.domain.document.plan import Check, ScaleOutPlan
from peaker.domain.replicas.inventory import CapacityReservation
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import PlanStep
from peaker.usecases.plan.plan_scale_out import plan_scale_out

from peaker_contract.errors import AwsCallRejected, PeakerError, Throttled
from peaker_contract.metrics import Metric
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import BASE, RUN_ID, data_volumes_of, orders, with_cluster

VCPUS, GP3 = "L-1216C47A", "L-7A658B76"


@pytest.fixture
def ports() -> CalmPorts:
    """A source and a base replica of two vCPUs each; half a TiB of data and as much of log."""
    made = with_replicas(calm_ports(orders(max_replicas=6), orders(name="carts")))
    made.account_quotas.values |= {VCPUS: 64.0, GP3: 50.0}
    return made


def with_replicas(made: CalmPorts) -> CalmPorts:
    with_cluster(made)
    for volume in data_volumes_of(BASE, size_gib=512):
        made.storage.add(volume)
    return made


def planned(ports: CalmPorts, count: int = 1, **more: Any) -> ScaleOutPlan:
    step = PlanStep(
        run_id=RUN_ID, cluster="orders", operation="scale_out", step="PlanOnly", count=count, **more
    )
    return ScaleOutPlan.model_validate(plan_scale_out(ports, step).plan)


def check(plan: ScaleOutPlan, name: str = "vCPUs") -> Check:
    return next(one for one in plan.checks if one.name == name)


def test_an_automatic_start_takes_no_more_than_are_built_side_by_side() -> None:
    ports = with_replicas(calm_ports(orders(max_replicas=90)))
    ports.readings.metrics["orders", Metric.REQUIRED_REPLICAS] = 80.0
    plan = planned(ports, trigger=Trigger(kind="alarm"))
    assert (plan.count, plan.refusals) == (40, ())
    assert [one.code for one in planned(ports, count=41).refusals] == ["batch"]


def test_an_automatic_start_takes_as_many_as_fit(ports: CalmPorts) -> None:
    ports.account_quotas.values[VCPUS] = 8.0
    ports.readings.metrics["orders", Metric.REQUIRED_REPLICAS] = 5.0
    plan = planned(ports, trigger=Trigger(kind="alarm"))
    assert (plan.count, plan.refusals, check(plan).verdict) == (2, (), "warn")


@pytest.mark.parametrize(
    "error", [Throttled("slow down"), AwsCallRejected("ec2:DescribeInstances: UnauthorizedOperation")]
)
def test_what_aws_does_not_tell_is_unknown_and_keeps_nobody_from_building(
    ports: CalmPorts, error: PeakerError
) -> None:
    ports.refuses("compute.on_demand_instances", error)
    plan = planned(ports)
    assert (check(plan).verdict, plan.refusals) == ("unknown", ())
    assert str(error) in check(plan).detail
    assert check(plan, "EBS storage").verdict == "pass"


@pytest.mark.parametrize(
    "error", [Throttled("slow down"), AwsCallRejected("servicequotas:GetServiceQuota: denied")]
)
def test_service_quotas_that_do_not_answer_keep_nobody_from_building(
    ports: CalmPorts, error: PeakerError
) -> None:
    """AWS's default of the initialization rate holds, and the plan says why."""
    ports.account_quotas.error = error
    plan = planned(ports)
    rate = check(plan, "initialization rate")
    assert (rate.verdict, rate.numbers["quota_mib_per_s"], plan.refusals) == ("pass", 5_000, ())
    assert str(error) in rate.detail


GROUP = "arn:aws:resource-groups:us-east-1:111111111111:group/orders-peak"


@pytest.mark.parametrize(
    ("group", "is_targeted", "fit"), [(GROUP, True, 2), (GROUP, False, 0), (None, True, 0)]
)
def test_empty_targeted_places_are_room_for_a_cluster_that_names_a_group(
    group: str | None, is_targeted: bool, fit: int
) -> None:
    """The quota is full: two hosts run, and two places are empty, which EC2 counts like hosts."""
    ports = with_replicas(calm_ports(orders(max_replicas=6, capacity_reservation_group_arn=group)))
    ports.account_quotas.values |= {VCPUS: 8.0, GP3: 50.0}
    ports.compute.reservations = [CapacityReservation("r6i.large", 2, is_targeted)]
    assert check(planned(ports, 2)).numbers["fit"] == fit


def test_a_budget_that_holds_two_of_thirty_costs_no_more_calls_than_one_that_holds_all_that_is_missing() -> (
    None
):
    """However many counts are weighed: in memory."""
    hourly = planned(with_cluster(calm_ports(orders()))).price.hourly
    assert hourly is not None
    limits = orders().limits.model_dump() | {"max_hourly_cost_usd": 2.5 * hourly}

    def calls(required: float) -> list[str]:
        ports = with_cluster(calm_ports(orders(max_replicas=40, limits=limits)))
        ports.readings.metrics["orders", Metric.REQUIRED_REPLICAS] = required
        ports.each.heard.clear()
        assert planned(ports, trigger=Trigger(kind="schedule")).count == 2
        return sorted(name for name, _ in ports.each.heard)

    assert calls(31) == calls(3)
    assert 5 < len(calls(31)) <= 40
