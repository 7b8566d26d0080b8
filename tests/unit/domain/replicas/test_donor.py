"""Which replica is snapshotted (I2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.donor import choose_donor
from peaker.domain.replicas.fleet import FleetState, Replica
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


healths = st.sampled_from([TargetHealth(state) for state in TargetState] + [Unknown("no answer")])
lags = st.one_of(st.builds(Known, st.floats(0, 100)), st.just(Unknown("no data")))


@given(st.lists(st.tuples(healths, lags, st.booleans()), max_size=5))
def test_whatever_the_fleet_the_source_and_the_unproven_are_never_chosen(members: list[tuple]) -> None:  # type: ignore[type-arg]
    replicas: list[Replica] = [
        replica(SOURCE if is_source else f"i-{index:017x}", health=health, lag=lag)
        for index, (health, lag, is_source) in enumerate(members)
    ]
    choice = choose_donor(fleet_with(*replicas), orders())
    assert len(choice.verdicts) == len(replicas)
    if choice.donor is not None:
        assert choice.donor.instance_id != SOURCE
        assert choice.donor.is_serving
        assert not isinstance(choice.donor.lag_seconds, Known) or choice.donor.lag_seconds.value <= 5
