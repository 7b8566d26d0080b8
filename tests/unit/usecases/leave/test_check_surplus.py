"""What an automatic scale_in asks before it takes the lease: is there anything to take away?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import Parking, ReplicaState
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import SurplusStep
from peaker.usecases.leave.check_surplus import SurplusChecked, check_surplus
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.release_lease import release_lease

from tests.support.builders import orders
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.support.peak import IN_RUN, PEAK, step, with_peak


@pytest.fixture
def ports() -> FakePorts:
    """A peak replica that the load does not need any more."""
    made = with_peak(fake_ports(orders()))
    made.readings.metrics["ReplicaSurplus"] = 1
    return made


def checked(ports: FakePorts, kind: str = "schedule") -> SurplusChecked:
    trigger = Trigger.model_validate({"kind": kind})
    asked = SurplusStep(
        run_id=IN_RUN, cluster="orders", operation="scale_in", step="CheckSurplus", trigger=trigger
    )
    return check_surplus(ports, asked)


def park(ports: FakePorts, hours: float) -> None:
    """The peak replica stands, and expires that many hours after now."""
    given = step(ports, "ParkReplica")
    row = ports.ledger.replicas("orders")[PEAK]
    until = NOON + timedelta(hours=hours)
    parking = Parking(NOON - timedelta(days=2), None, None, until, "log retention")
    parked = replace(row, state=ReplicaState.PARKED, parking=parking)
    ports.ledger.set_replica(holder_of(given), parked)
    release_lease(ports, given)
    ports.endpoint.targets.pop(PEAK, None)
    ports.compute.instances[PEAK] = replace(ports.compute.instances[PEAK], state="stopped")


@pytest.mark.parametrize("kind", ["schedule", "alarm"])
def test_a_replica_to_spare_may_go(ports: FakePorts, kind: str) -> None:
    assert checked(ports, kind).surplus, checked(ports, kind).text


def test_the_schedule_holds_on_an_unknown_surplus_and_an_alarm_saw_it(ports: FakePorts) -> None:
    del ports.readings.metrics["ReplicaSurplus"]
    assert (checked(ports).surplus, checked(ports, "alarm").surplus) == (False, True)


def test_without_a_surplus_by_now_nothing_goes(ports: FakePorts) -> None:
    ports.readings.metrics["ReplicaSurplus"] = 0
    assert not checked(ports, "alarm").surplus


def test_a_cluster_that_is_only_observed_loses_nothing(ports: FakePorts) -> None:
    ports.readings.metrics["Observing"] = 1
    assert "only observed" in checked(ports).text


def test_what_the_guard_would_refuse_never_takes_the_lease(ports: FakePorts) -> None:
    ports.readings.measured = Unknown("no points")
    assert "what is unknown is held (I4)" in checked(ports).text
    ports.readings.measured = Known(50.0)
    ports.compute.instances[PEAK] = replace(ports.compute.instances[PEAK], launched_at=NOON)
    assert "minimum_lifetime_minutes" in checked(ports).text
    assert ports.lease.current("orders", NOON) is None


def test_an_expired_parked_replica_goes_at_any_load(ports: FakePorts) -> None:
    ports.readings.metrics["ReplicaSurplus"] = 0
    park(ports, hours=+1)
    assert "parked until" in checked(ports).text
    park(ports, hours=-1)
    assert checked(ports).surplus, checked(ports).text


def test_a_replica_that_is_missing_needs_the_lease_first(ports: FakePorts) -> None:
    park(ports, hours=-1)
    ports.readings.metrics["RequiredReplicas"] = 3
    assert "scale_out goes first" in checked(ports).text
