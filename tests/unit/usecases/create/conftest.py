"""Where the steps of a build begin."""

from __future__ import annotations

import pytest
from peaker.domain.runs.run import PlanStep
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.plan.plan_scale_out import plan_scale_out

from sim.calm import CalmPorts, calm_ports
from tests.support.builders import leased, orders, with_cluster


@pytest.fixture
def ports() -> CalmPorts:
    """A run that has its plan, one replica in zone a first, and its donor."""
    ports = with_cluster(calm_ports(orders()))
    plan_scale_out(ports, PlanStep(**leased(ports, "PlanScaleOut").model_dump()))
    choose_donor(ports, leased(ports, "ChooseDonor"))
    return ports
