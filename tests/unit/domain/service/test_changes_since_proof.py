"""What was proven must be what is registered: the same source, the same start, the same volumes (I5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.instants import to_iso
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Volume
from peaker.domain.runs.ledger import StepRow
from peaker.domain.service.registration import LiveState, changes_since_proof

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import SOURCE, data_volumes_of, instance

NEW = "i-000000000000c0002"
VOLUMES = {"vol-data-0002": "/dev/sdf", "vol-log-0002": "/dev/sdg"}
THE_SOURCE = instance(SOURCE, "source")
REPLICA = instance(NEW)
DOOR = LiveState(source=THE_SOURCE, replica=REPLICA, volumes=tuple(data_volumes_of(NEW)))
LAUNCHED = to_iso(REPLICA.launched_at)


def steps(**numbers: dict[str, Any]) -> dict[str, StepRow]:
    told: dict[str, dict[str, Any]] = {
        "VerifyStorage": {"launched_at": LAUNCHED},
        "StartDatabase": {"launched_at": LAUNCHED},
        "StartReplication": {"source_host": THE_SOURCE.private_ip},
        **numbers,
    }
    return {name: StepRow(name, NOON, NOON, values) for name, values in told.items()}


def moved(moving: str, **changes: Any) -> tuple[Volume, ...]:
    return tuple(replace(one, **changes) if one.volume_id == moving else one for one in data_volumes_of(NEW))


CHANGED = {
    "a failover to another instance": (
        replace(DOOR, source=replace(THE_SOURCE, instance_id="i-000000000000050b", private_ip="10.77.1.9")),
        ["it follows 10.77.2.20, and the source is i-000000000000050b (10.77.1.9) now: there was a failover"],
    ),
    "a source that nobody knows": (
        replace(DOOR, source=Unknown("found two")),
        ["the source is unknown: found two; what is unknown is held (I4)"],
    ),
    "an instance that stops": (
        replace(DOOR, replica=replace(REPLICA, state="stopping")),
        ["its instance is stopping"],
    ),
    "a volume that was detached": (
        replace(DOOR, volumes=DOOR.volumes[1:]),
        ["vol-data-0002, which was proven at /dev/sdf, is not attached any more"],
    ),
    "a volume that is being detached": (
        replace(DOOR, volumes=moved("vol-log-0002", attachment_state="detaching")),
        ["vol-log-0002, which was proven at /dev/sdg, is not attached any more"],
    ),
    "a volume at another device": (
        replace(DOOR, volumes=moved("vol-log-0002", device="/dev/sdh")),
        ["vol-log-0002 is at /dev/sdh, and was proven at /dev/sdg"],
    ),
    "another volume in its place": (
        replace(DOOR, volumes=moved("vol-log-0002", volume_id="vol-cold")),
        [
            "vol-log-0002, which was proven at /dev/sdg, is not attached any more",
            "vol-cold is at /dev/sdg, where vol-log-0002 was proven",
        ],
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_has_changed_is_named(what: str) -> None:
    door, said = CHANGED[what]
    assert changes_since_proof(steps(), VOLUMES, door) == said


def test_a_start_after_the_proof_is_named_with_both_times() -> None:
    door = replace(DOOR, replica=replace(REPLICA, launched_at=REPLICA.launched_at + timedelta(hours=1)))
    found = changes_since_proof(steps(), VOLUMES, door)
    assert [one.split("after ")[1] for one in found] == [
        f"VerifyStorage (started {LAUNCHED})",
        f"StartDatabase (started {LAUNCHED})",
    ]


def test_a_return_was_proven_on_an_earlier_start() -> None:
    """Its own run has no VerifyStorage; its database was started on this start of the instance."""
    own = {name: row for name, row in steps().items() if name != "VerifyStorage"}
    assert changes_since_proof(own, VOLUMES, DOOR) == []


def test_steps_of_the_version_before_say_no_start() -> None:
    assert changes_since_proof(steps(VerifyStorage={}, StartDatabase={}), VOLUMES, DOOR) == []
