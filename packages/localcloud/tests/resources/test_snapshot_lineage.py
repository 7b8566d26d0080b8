"""Which snapshots ebs:ListChangedBlocks compares: of one volume, and one with another that it is incremental to."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from cloud_rig.resources import ResourceCloud, open_cloud
from localcloud.extensions.ec2.ebs import register_snapshot


def changed(aws: ResourceCloud, first: str, second: str) -> list[int]:
    page = aws.ebs.list_changed_blocks(FirstSnapshotId=first, SecondSnapshotId=second)
    return [block["BlockIndex"] for block in page["ChangedBlocks"]]


def refuses(aws: ResourceCloud, first: str, second: str) -> bool:
    with pytest.raises(ClientError) as error:
        changed(aws, first, second)
    said = error.value.response
    assert (said["Error"]["Code"], said["Reason"]) == ("ValidationException", "UNRELATED_SNAPSHOTS")
    assert said["ResponseMetadata"]["HTTPStatusCode"] == 400
    return True


def donor_with_a_snapshot(aws: ResourceCloud) -> tuple[str, str]:
    donor = aws.available_volume()
    aws.plane.volumes.write(donor, {1: b"a", 2: b"b", 3: b"c"})
    return donor, aws.completed_snapshot(donor)


def test_a_snapshot_and_one_of_a_volume_that_was_made_from_it_differ_by_what_was_written(
    aws: ResourceCloud,
) -> None:
    """EBS user guide, "Write Amazon EBS snapshots": a snapshot of a volume that was made from A is incremental to A."""
    donor, first = donor_with_a_snapshot(aws)
    copy = aws.available_volume(SnapshotId=first)
    aws.plane.volumes.write(copy, {2: b"own", 7: b"added"})
    aws.plane.volumes.write(donor, {3: b"later"})
    of_copy = aws.completed_snapshot(copy)
    assert changed(aws, first, of_copy) == [2, 7]
    assert changed(aws, of_copy, first) == [2, 7]
    of_copies_copy = aws.completed_snapshot(aws.available_volume(SnapshotId=of_copy))
    assert changed(aws, first, of_copies_copy) == [2, 7]


def test_two_that_only_have_an_ancestor_in_common_are_not_compared(aws: ResourceCloud) -> None:
    donor, first = donor_with_a_snapshot(aws)
    copies = [aws.completed_snapshot(aws.available_volume(SnapshotId=first)) for _ in range(2)]
    later = aws.completed_snapshot(donor)
    assert refuses(aws, *copies)
    assert refuses(aws, later, copies[0]), "the donor went on without the copy"
    assert changed(aws, first, later) == []
    from_later = aws.completed_snapshot(aws.available_volume(SnapshotId=later))
    assert changed(aws, first, from_later) == [], (
        "of the donor's earlier one too the copy of the later is a descendant"
    )


def test_what_was_made_of_nothing_in_common_is_not_compared(aws: ResourceCloud) -> None:
    _, first = donor_with_a_snapshot(aws)
    empty = aws.available_volume()
    aws.plane.volumes.write(empty, {1: b"a", 2: b"b", 3: b"c"})  # as a direct fill does
    assert refuses(aws, first, aws.completed_snapshot(empty))


def test_a_lineage_outlives_what_lies_between(aws: ResourceCloud) -> None:
    donor, first = donor_with_a_snapshot(aws)
    aws.plane.volumes.write(donor, {5: b"more"})
    between = aws.completed_snapshot(donor)
    copy = aws.available_volume(SnapshotId=between)
    aws.ec2.delete_snapshot(SnapshotId=between)
    aws.ec2.delete_volume(VolumeId=donor)
    aws.plane.volumes.write(copy, {6: b"own"})
    assert changed(aws, first, aws.completed_snapshot(copy)) == [5, 6]


def test_snapshots_whose_volume_nobody_knows_are_not_of_one_volume(aws: ResourceCloud) -> None:
    names = {"snap-0a77000000000001a": {1: b"a"}, "snap-0a77000000000001b": {1: b"b"}}
    for name, blocks in names.items():
        volume = aws.available_volume()
        aws.plane.volumes.write(volume, blocks)
        aws.plane.volumes.create_snapshots({volume: name})
        register_snapshot(aws.cloud, name, 4)
    assert refuses(aws, *names)


def test_a_cloud_may_compare_snapshots_of_one_volume_alone(tmp_path: Path) -> None:
    with open_cloud(tmp_path, compares_along_lineage=False) as aws:
        donor, first = donor_with_a_snapshot(aws)
        copy = aws.available_volume(SnapshotId=first)
        assert refuses(aws, first, aws.completed_snapshot(copy))
        aws.plane.volumes.write(donor, {3: b"later"})
        assert changed(aws, first, aws.completed_snapshot(donor)) == [3]
