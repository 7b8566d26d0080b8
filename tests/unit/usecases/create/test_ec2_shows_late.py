"""What EC2 has just answered is not found by the next call: it is waited for, and nothing is made twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import Donor, ResourceKind, ResourceRow, of_kind
from peaker.usecases.create.attach_volumes import attach_volumes
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.run import lost_answers
from peaker.usecases.run.held_lease import holder_of

from peaker_contract import errors
from peaker_contract.names import VOLUME_TAG
from tests.support.builders import RUN_ID, leased
from tests.support.fakes import FakePorts


def snapshot_names(ports: FakePorts) -> set[str | None]:
    return {one.tags.get(VOLUME_TAG) for one in ports.storage.snapshots.values()}


def intended_long_ago(ports: FakePorts) -> None:
    """Snapshots of a backup had to complete first: the intent was written long before the call that EC2 took."""
    given = leased(ports, "CreateSnapshots")
    for name, volume_id in ports.ledger.run(RUN_ID).required(Donor, "").volumes.items():
        details = {"source_volume_id": volume_id}
        ports.ledger.intend(
            holder_of(given), ResourceKind.SNAPSHOT, name, given.step, ports.clock.now(), details
        )
    ports.clock.advance(minutes=6)


@pytest.mark.parametrize("waited_for_others", [False, True])
def test_a_snapshot_that_is_not_found_for_its_name_is_named_by_a_later_try(
    ports: FakePorts, waited_for_others: bool
) -> None:
    """CreateSnapshots had answered; CreateTags said InvalidSnapshot.NotFound, and lists did not show it either."""
    if waited_for_others:
        intended_long_ago(ports)
    ports.storage.not_found_yet = ports.storage.hidden = True
    for _ in range(2):
        with pytest.raises(errors.SnapshotsPending, match="does not find snap-"):
            create_snapshots(ports, leased(ports, "CreateSnapshots"))
        ports.clock.advance(seconds=30)
    ports.storage.not_found_yet = ports.storage.hidden = False
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert ports.storage.snapshot_calls == 1
    assert snapshot_names(ports) == {"data", "log"}


def test_of_two_calls_at_once_one_makes_the_set(ports: FakePorts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one had looked for rows and snapshots before the first had written or made any."""
    create, given = ports.storage.create_snapshots, leased(ports, "CreateSnapshots")

    def overtaken(*asked: Any) -> list[Snapshot]:
        monkeypatch.setattr(ports.storage, "create_snapshots", create)
        monkeypatch.setattr(lost_answers, "LOST_ANSWER_GRACE", timedelta(0))
        with pytest.raises(errors.SnapshotsPending, match="another call makes the set"):
            create_snapshots(ports, given)
        return create(*asked)

    monkeypatch.setattr(ports.storage, "create_snapshots", overtaken)
    create_snapshots(ports, given)
    assert ports.storage.snapshot_calls == 1


def test_a_call_that_was_refused_is_made_again_without_a_wait(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    intended_long_ago(ports)
    create = ports.storage.create_snapshots

    def refused(*_: Any) -> list[Snapshot]:
        monkeypatch.setattr(ports.storage, "create_snapshots", create)
        raise errors.Throttled("ec2:CreateSnapshots: RequestLimitExceeded")

    monkeypatch.setattr(ports.storage, "create_snapshots", refused)
    with pytest.raises(errors.Throttled):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert ports.storage.snapshot_calls == 1


def test_a_set_that_is_recorded_in_part_is_not_made_again(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function died between two rows of the ledger, and EC2 does not show the set yet."""
    intended_long_ago(ports)
    made = ports.ledger.made

    def dies(*given: object) -> ResourceRow:
        if any(row.resource_id for row in of_kind(ports.ledger.resources(RUN_ID), ResourceKind.SNAPSHOT)):
            raise errors.AwsUnavailable("no answer")
        return made(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ports.ledger, "made", dies)
        with pytest.raises(errors.AwsUnavailable):
            create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.hidden = True
    with pytest.raises(errors.SnapshotsPending, match="recorded a part of the set"):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.hidden = False
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert ports.storage.snapshot_calls == 1
    assert snapshot_names(ports) == {"data", "log"}


def test_a_snapshot_that_is_deleted_before_it_has_its_name_is_not_waited_for_without_end(
    ports: FakePorts,
) -> None:
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.snapshots.popitem()
    ports.clock.advance(minutes=6)
    with pytest.raises(errors.SnapshotFailed, match="is not there any more"):
        create_snapshots(ports, leased(ports, "CreateSnapshots"))


def test_a_volume_that_a_list_shows_and_attach_does_not_find_is_tried_again(ports: FakePorts) -> None:
    """DescribeVolumes said available; AttachVolume said InvalidVolume.NotFound."""
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.complete()
    launch_replica(ports, leased(ports, "LaunchReplica"))
    create_volumes(ports, leased(ports, "CreateVolumes"))
    ports.storage.not_found_yet = True
    with pytest.raises(errors.VolumesAttaching, match="does not show yet"):
        attach_volumes(ports, leased(ports, "AttachVolumes"))
    ports.storage.not_found_yet = False
    with pytest.raises(errors.VolumesAttaching, match="begins to attach"):
        attach_volumes(ports, leased(ports, "AttachVolumes"))
    ports.storage.finish_attaching()
    attach_volumes(ports, leased(ports, "AttachVolumes"))
