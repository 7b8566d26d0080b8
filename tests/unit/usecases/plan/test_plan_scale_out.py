"""PlanScaleOut asks the ports once, however many counts it weighs in memory."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from peaker.domain.runs.run import PlanStep
from peaker.usecases.plan.plan_scale_out import plan_scale_out

from peaker_contract.metrics import Metric
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import RUN_ID, orders, with_cluster

# EC2, EBS, Service Quotas, CloudWatch, DynamoDB and prices, each asked for one thing; the clock is no call.
MOST_CALLS = 40


class Counted:
    """A port whose calls are noted by name."""

    def __init__(self, port: Any, name: str, calls: list[str]) -> None:
        self._port, self._name, self._calls = port, name, calls

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._port, attribute)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            self._calls.append(f"{self._name}.{attribute}")
            return found(*given, **named)

        return call


def planned(required: float) -> tuple[int, list[str]]:
    """The count that an automatic start plans with room for two replicas in its budget, and its calls."""
    limits = orders().limits.model_dump() | {"max_hourly_cost_usd": 2.5 * hourly()}
    ports = with_cluster(calm_ports(orders(max_replicas=40, limits=limits)))
    ports.readings.metrics["orders", Metric.REQUIRED_REPLICAS] = required
    calls: list[str] = []
    return _plan(_counted(ports, calls))["count"], calls


def hourly() -> float:
    """USD an hour of one replica of the cluster."""
    price: float = _plan(with_cluster(calm_ports(orders())))["price"]["hourly"]
    return price


def _plan(ports: CalmPorts) -> dict[str, Any]:
    step = PlanStep(
        run_id=RUN_ID,
        cluster="orders",
        operation="scale_out",
        step="PlanOnly",
        count=1,
        trigger={"kind": "schedule"},
    )
    return plan_scale_out(ports, step).plan


def _counted(ports: CalmPorts, calls: list[str]) -> CalmPorts:
    wrapped: dict[str, Any] = {
        one.name: Counted(getattr(ports, one.name), one.name, calls)
        for one in fields(ports)
        if one.name not in ("environment", "clock", "clusters")
    }
    return replace(ports, **wrapped)


def test_a_budget_that_holds_two_of_thirty_costs_no_call_more_than_one_that_holds_all_that_is_missing() -> (
    None
):
    count, calls = planned(required=31)
    fits, few = planned(required=3)
    assert (count, fits) == (2, 2)
    assert sorted(calls) == sorted(few)
    assert len(calls) <= MOST_CALLS
