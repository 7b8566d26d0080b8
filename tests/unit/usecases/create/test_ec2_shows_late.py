"""What EC2 has just answered is not found by the next call: it is waited for, and nothing is made twice."""

from __future__ import annotations

import pytest
from peaker.domain.runs.ledger import Donor, ResourceKind
from peaker.usecases.create.attach_volumes import attach_volumes
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.run.run_memory import intend

from peaker_contract import errors
from peaker_contract.names import VOLUME_TAG
from sim.calm import CalmPorts
from sim.workflows.interferences import Followed, Raises, Watches
from tests.support.builders import RUN_ID, leased


def snapshot_names(ports: CalmPorts) -> set[str | None]:
    return {one.tags.get(VOLUME_TAG) for one in ports.storage.snapshots.values()}


def intended_long_ago(ports: CalmPorts) -> None:
    """Snapshots of a backup had to complete first: the intent was written long before the call that EC2 took."""
    given = leased(ports, "CreateSnapshots")
    for name, volume_id in ports.ledger.run(RUN_ID).required(Donor, "").volumes.items():
        details = {"source_volume_id": volume_id}
        intend(ports, given, ResourceKind.SNAPSHOT, name, details)
    ports.clock.advance(minutes=6)


@pytest.mark.parametrize("waited_for_others", [False, True])
def test_a_snapshot_that_is_not_found_for_its_name_is_named_by_a_later_try(
    ports: CalmPorts, waited_for_others: bool
) -> None:
    """CreateSnapshots had answered; CreateTags said InvalidSnapshot.NotFound, and lists did not show it either."""
    if waited_for_others:
        intended_long_ago(ports)
    ports.chance.late = True
    for _ in range(2):
        with pytest.raises(errors.SnapshotsPending, match="does not find snap-"):
            create_snapshots(ports, leased(ports, "CreateSnapshots"))
        ports.chance.late = False
        ports.clock.advance(seconds=2)
    ports.clock.advance(seconds=6)
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert len(ports.done("storage.create_snapshots")) == 1
    assert snapshot_names(ports) == {"data", "log"}


def test_a_set_that_is_recorded_in_part_is_not_made_again(ports: CalmPorts) -> None:
    """The function died between two rows of the ledger, and EC2 does not show the set yet."""
    intended_long_ago(ports)
    died = errors.AwsUnavailable("no answer")
    ports.meets(Followed(at="ledger.made", hit=lambda: ports.refuses("ledger.made", died)))
    ports.chance.late = True
    with pytest.raises(errors.AwsUnavailable):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.answers_all()
    with pytest.raises(errors.SnapshotsPending, match="recorded a part of the set"):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.chance.late = False
    ports.clock.advance(seconds=8)
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert len(ports.done("storage.create_snapshots")) == 1
    assert snapshot_names(ports) == {"data", "log"}


def test_a_snapshot_that_is_deleted_before_it_has_its_name_is_not_waited_for_without_end(
    ports: CalmPorts,
) -> None:
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.delete_snapshot(next(iter(ports.storage.snapshots)))
    ports.clock.advance(minutes=6)
    with pytest.raises(errors.SnapshotFailed, match="is not there any more"):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))


def test_a_volume_that_a_list_shows_and_attach_does_not_find_is_tried_again(ports: CalmPorts) -> None:
    """DescribeVolumes said available; AttachVolume said InvalidVolume.NotFound."""
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.clock.advance(seconds=40)
    launch_replica(ports, leased(ports, "LaunchReplica"))
    create_volumes(ports, leased(ports, "CreateVolumes"))
    ports.refuses("storage.attach", errors.ResourceNotFound("ec2:AttachVolume: InvalidVolume.NotFound"))
    with pytest.raises(errors.VolumesAttaching, match="does not show yet"):
        attach_volumes(ports, leased(ports, "AttachVolumes"))
    ports.answers_all()
    with pytest.raises(errors.VolumesAttaching, match="begins to attach"):
        attach_volumes(ports, leased(ports, "AttachVolumes"))
    attach_volumes(ports, leased(ports, "AttachVolumes"))


def test_of_two_calls_at_once_one_makes_the_set(ports: CalmPorts) -> None:
    """The second one had looked for rows and snapshots before the first had written or made any."""
    given = leased(ports, "CreateSnapshots")

    def overtakes() -> None:
        with pytest.raises(errors.SnapshotsPending, match="another call makes the set"):
            create_snapshots(ports, given)

    ports.meets(Watches(at="storage.create_snapshots", hit=overtakes))
    create_snapshots(ports, given)
    assert len(ports.done("storage.create_snapshots")) == 1


@pytest.mark.parametrize(
    "refusal",
    [errors.SnapshotsPending("ConcurrentSnapshotLimitExceeded"), errors.Throttled("RequestLimitExceeded")],
)
def test_a_set_that_had_to_wait_for_others_is_made_at_the_next_look(
    ports: CalmPorts, refusal: errors.PeakerError
) -> None:
    ports.meets(Raises(at="storage.create_snapshots", error=refusal))
    with pytest.raises(type(refusal), match="LimitExceeded"):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert len(ports.done("storage.create_snapshots")) == 1
