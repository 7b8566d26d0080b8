"""What is paid once for a build is in the receipts of its first stretch alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.runs.ledger import Holder, RunReplica
from peaker.domain.runs.run import PlanStep, RecordStep
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease

from sim.calm import CalmPorts, calm_ports
from tests.support.builders import RUN_ID, leased, orders, with_cluster

AWAY = "scale-in-orders-20261121T180000-ab12"


@pytest.fixture
def ports() -> CalmPorts:
    """A replica was built at 300 MiB/s, which is paid once, and its run has ended."""
    made = with_cluster(calm_ports(orders(initialization_rate_mib_per_s=300)))
    step = leased(made, "PlanScaleOut")
    plan_scale_out(made, PlanStep(**step.model_dump()))
    made.ledger.close_run(step.holder, "succeeded", made.clock.now() + timedelta(hours=1))
    release_lease(made, step)
    return made


def cost_of_leaving(ports: CalmPorts, started_after_hours: float) -> dict[str, Any]:
    """The cost in the receipt of a scale_in whose replica's instance started so long after the build began."""
    step = leased(ports, "RecordReceipt", "scale_in", AWAY)
    since = ports.clock.now() + timedelta(hours=started_after_hours)
    holder: Holder = step.holder
    ports.ledger.settle(holder, RunReplica(instance_id="i-1", builder=RUN_ID, running_since=since))
    ports.clock.advance(hours=6)
    record_receipt(ports, RecordStep(**step.model_dump(), outcome="succeeded"))
    receipt = ports.ledger.receipt(AWAY)
    assert receipt is not None
    return dict(receipt["cost"])


def test_the_first_stretch_has_what_was_paid_once(ports: CalmPorts) -> None:
    cost = cost_of_leaving(ports, 0.1)
    assert cost["once"] > 0
    assert cost["so_far"] == pytest.approx(cost["once"] + cost["hourly"] * cost["replica_hours"], abs=0.001)


def test_a_replica_that_came_back_does_not_pay_it_again(ports: CalmPorts) -> None:
    cost = cost_of_leaving(ports, 3)
    assert cost["once"] == 0
    assert cost["so_far"] == pytest.approx(cost["hourly"] * cost["replica_hours"], abs=0.001)
