"""Which replica is snapshotted (I2)."""

from __future__ import annotations

import pytest
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.donor import choose_donor
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import TargetHealth, TargetState

from tests.support.builders import SOURCE, data_volumes_of, fleet_with, instance, orders, replica

A, B = "i-00000000000000a01", "i-00000000000000b01"
SICK = TargetHealth(TargetState.UNHEALTHY, "Target.FailedHealthChecks")

SITUATIONS: dict[str, tuple[FleetState, str | None, str]] = {
    "one-healthy": (fleet_with(replica(A)), A, "healthy"),
    "least-lag-wins": (fleet_with(replica(A, lag=Known(4)), replica(B, lag=Known(1))), B, "lag 1 s"),
    "known-lag-before-unknown": (fleet_with(replica(A), replica(B, lag=Known(3))), B, "lag 3 s"),
    "unhealthy-is-passed-over": (fleet_with(replica(A, health=SICK), replica(B)), B, "FailedHealthChecks"),
    "unknown-health-is-not-healthy": (fleet_with(replica(A, health=Unknown("no answer"))), None, "no answer"),
    "lag-above-the-gate": (fleet_with(replica(A, lag=Known(6))), None, "lags 6 s, gate 5 s"),
    "stopped": (fleet_with(replica(A, state="stopped")), None, "instance is stopped"),
    "without-its-log-volume": (
        fleet_with(replica(A, volumes=tuple(data_volumes_of(A)[:1]))),
        None,
        "no volume log",
    ),
    "the-source-tagged-as-replica": (
        fleet_with(replica(SOURCE), source=instance(SOURCE, "source")),
        None,
        "is the source",
    ),
    "source-only": (fleet_with(), None, "the source is never used"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_situation(situation: str) -> None:
    fleet, donor, reason = SITUATIONS[situation]
    choice = choose_donor(fleet, orders())
    assert (choice.donor.instance_id if choice.donor else None) == donor
    assert reason in choice.text
