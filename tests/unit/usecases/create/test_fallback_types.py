"""Capacity by an order of instance types: the next where no zone has room for the one before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.document.plan import ScaleOutPlan, price_of_build
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.runs.run import PlanStep
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import RUN_ID, instance, leased, orders, with_cluster

LIKE_R6I = InstancePromise(3600, 77.49, memory_mib=16_384, architectures=("x86_64",))


def world(*fallbacks: str, **changes: Any) -> CalmPorts:
    ports = calm_ports(orders(fallback_instance_types=list(fallbacks), **changes))
    ports.compute.promises |= dict.fromkeys(("r6i.large", "r7i.large", "r6i.xlarge"), LIKE_R6I)
    with_cluster(ports)
    return ports


def planned(ports: CalmPorts) -> ScaleOutPlan:
    plan_scale_out(ports, PlanStep(**leased(ports, "PlanScaleOut").model_dump()))
    choose_donor(ports, leased(ports, "ChooseDonor"))
    return ports.ledger.run(RUN_ID).required(ScaleOutPlan, "test")


def left_out(ports: CalmPorts) -> dict[str, str | None]:
    return {one.instance_type: one.why_not for one in planned(ports).types}


def test_the_replica_is_priced_by_the_type_that_had_room() -> None:
    ports = world("r7i.large")
    plan = planned(ports)
    ports.world.account.full_types = {"r6i.large"}
    launch_replica(ports, leased(ports, "LaunchReplica"))
    paid, usual = price_of_build(ports.ledger.run(RUN_ID)), plan.price
    assert paid is not None
    assert paid.instance_hourly == {one.instance_type: one.instance_hourly for one in plan.types}["r7i.large"]
    assert paid.instance_hourly != usual.instance_hourly
    assert paid.hourly == pytest.approx(paid.instance_hourly + (usual.volumes_hourly or 0.0), abs=1e-4)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(LIKE_R6I, memory_mib=8_192), "it has 8,192 MiB of memory, r6i.large has 16,384"),
        (replace(LIKE_R6I, architectures=("arm64",)), "it is arm64, r6i.large is x86_64"),
    ],
)
def test_a_type_unlike_the_usual_one_is_left_out(other: InstancePromise, why: str) -> None:
    ports = world("r7i.large")
    ports.compute.promises["r7i.large"] = other
    assert left_out(ports) == {"r6i.large": None, "r7i.large": why}


def test_dearer_types_that_serve_already_count_in_the_budget() -> None:
    """A peak replica was launched with a type of sixteen times the price: its own price is in the sum."""
    ports = world(limits={**orders().limits.model_dump(), "max_hourly_cost_usd": 2.0})
    dear = instance("i-0dea0000000000001", tags={"peaker:load": "peak"})
    ports.compute.add(replace(dear, instance_type="r6i.8xlarge"))
    with pytest.raises(
        errors.ScaleOutRefused, match=r"\$1.890/h for dearer types .* are \$2.14/h, above the budget"
    ):
        planned(ports)


def test_dearer_types_that_serve_already_count_where_another_type_is_to_be_taken() -> None:
    """One of the usual type fits beside it, at $2.14/h; one of twice that price would pass the budget."""
    ports = world("r6i.xlarge", limits={**orders().limits.model_dump(), "max_hourly_cost_usd": 2.2})
    dear = instance("i-0dea0000000000001", tags={"peaker:load": "peak"})
    ports.compute.add(replace(dear, instance_type="r6i.8xlarge"))
    found = left_out(ports)
    assert found["r6i.large"] is None
    assert "are $2.27/h, above max_hourly_cost_usd 2.2" in str(found["r6i.xlarge"])
