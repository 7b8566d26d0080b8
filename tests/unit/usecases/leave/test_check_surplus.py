"""What an automatic scale_in asks before it takes the lease: is there anything to take away?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import Parking, ReplicaState
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import SurplusStep
from peaker.usecases.leave.check_surplus import check_surplus
from peaker.usecases.run.release_lease import release_lease

from peaker_contract.errors import NoSurplus
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import orders
from tests.support.peak import IN_RUN, PEAK, step, with_peak


@pytest.fixture
def ports() -> CalmPorts:
    """A peak replica that the load does not need any more."""
    made = with_peak(calm_ports(orders()))
    made.readings.metrics["orders", "ReplicaSurplus"] = 1
    return made


def surplus(ports: CalmPorts, kind: str = "schedule") -> bool:
    return why_not(ports, kind) == ""


def why_not(ports: CalmPorts, kind: str = "schedule") -> str:
    trigger = Trigger.model_validate({"kind": kind})
    asked = SurplusStep(
        run_id=IN_RUN, cluster="orders", operation="scale_in", step="CheckSurplus", trigger=trigger
    )
    try:
        check_surplus(ports, asked)
    except NoSurplus as found:
        return str(found)
    return ""


def park(ports: CalmPorts, hours: float) -> None:
    """The peak replica stands, and expires that many hours after now."""
    given = step(ports, "ParkReplica")
    row = ports.ledger.replicas("orders")[PEAK]
    until = NOON + timedelta(hours=hours)
    parking = Parking(NOON - timedelta(days=2), None, None, until, "log retention")
    parked = replace(row, state=ReplicaState.PARKED, parking=parking)
    ports.ledger.set_replica(given.holder, parked)
    release_lease(ports, given)
    ports.endpoint.health(orders()).pop(PEAK, None)
    ports.compute.add(replace(ports.compute.instance(PEAK), state="stopped"))


@pytest.mark.parametrize("kind", ["schedule", "alarm"])
def test_a_replica_to_spare_may_go(ports: CalmPorts, kind: str) -> None:
    assert why_not(ports, kind) == ""


def test_the_schedule_holds_on_an_unknown_surplus_and_an_alarm_saw_it(ports: CalmPorts) -> None:
    del ports.readings.metrics["orders", "ReplicaSurplus"]
    assert (surplus(ports), surplus(ports, "alarm")) == (False, True)


def test_without_a_surplus_by_now_nothing_goes(ports: CalmPorts) -> None:
    ports.readings.metrics["orders", "ReplicaSurplus"] = 0
    assert not surplus(ports, "alarm")


def test_a_cluster_that_is_only_observed_loses_nothing(ports: CalmPorts) -> None:
    ports.readings.metrics["orders", "Observing"] = 1
    assert "only observed" in why_not(ports)


def test_what_the_guard_would_refuse_never_takes_the_lease(ports: CalmPorts) -> None:
    ports.readings.loads["orders"] = Unknown("no points")
    assert "what is unknown is held (I4)" in why_not(ports)
    ports.readings.loads["orders"] = 50.0
    ports.compute.add(replace(ports.compute.instance(PEAK), launched_at=NOON))
    assert "minimum_lifetime_minutes" in why_not(ports)
    assert ports.lease.current("orders", NOON) is None


def test_an_expired_parked_replica_goes_at_any_load(ports: CalmPorts) -> None:
    ports.readings.metrics["orders", "ReplicaSurplus"] = 0
    park(ports, hours=+1)
    assert "parked until" in why_not(ports)
    park(ports, hours=-1)
    assert why_not(ports) == ""


def test_a_replica_that_is_missing_needs_the_lease_first(ports: CalmPorts) -> None:
    park(ports, hours=-1)
    ports.readings.metrics["orders", "RequiredReplicas"] = 3
    assert "scale_out goes first" in why_not(ports)
