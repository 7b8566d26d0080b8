"""The host's client of the EBS direct APIs: the same answers from the tests' server and from the local cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peaker_host.aws.direct_api import ChangedPage, DirectApi
from peaker_host.aws.instance_role import InstanceRole
from peaker_host.machine.errors import (
    BlockDamaged,
    BlockTokenRefused,
    DirectApiBusy,
    DirectApiRefused,
    NoInstanceRole,
)

from cloud_rig.resources import open_cloud
from localcloud.extensions.ec2.instance_metadata import serve_metadata
from tests.host.fill.direct_api_server import BLOCK, SNAPSHOT, DirectApiServer, served

CONTENT = {1: b"one", 4: b"four", 5: b"five"}


class Place:
    """A snapshot with CONTENT, and the client of a host that may read it."""

    def __init__(self, api: DirectApi, snapshot: str) -> None:
        self.api, self.snapshot = api, snapshot

    def block(self, index: int, token: str) -> bytes:
        buffer = bytearray(BLOCK)
        self.api.block(self.snapshot, index, token, memoryview(buffer))
        return bytes(buffer)

    def tokens(self) -> dict[int, str]:
        return dict(self.api.snapshot_blocks(self.snapshot).blocks)


@pytest.fixture
def server() -> Iterator[DirectApiServer]:
    with served(DirectApiServer({SNAPSHOT: CONTENT}, volume_gib=4)) as one:
        yield one


@pytest.fixture(params=["tests' server", "local cloud"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "tests' server":
        one = request.getfixturevalue("server")
        yield Place(DirectApi(InstanceRole(one.url), one.url), SNAPSHOT)
        return
    with open_cloud(tmp_path) as aws:
        volume = aws.available_volume()
        aws.plane.volumes.write(volume, CONTENT)
        snapshot = aws.completed_snapshot(volume)
        instance = aws.launched()
        give_role(aws, instance, "ebs:ListSnapshotBlocks", "ebs:GetSnapshotBlock")
        role = InstanceRole(serve_metadata(aws.cloud, instance))
        yield Place(DirectApi(role, aws.cloud.endpoint_url), snapshot)


def test_changed_blocks_are_those_that_differ_between_snapshots_of_one_volume(tmp_path: Path) -> None:
    """By the local cloud, which gives a role no more than it has; and by pages of which AWS leaves some empty."""
    with open_cloud(tmp_path) as aws:
        volume, other = aws.available_volume(), aws.available_volume()
        aws.plane.volumes.write(volume, CONTENT)
        first, foreign = aws.completed_snapshot(volume), aws.completed_snapshot(other)
        aws.plane.volumes.write(volume, {9: b"new"})
        second, instance = aws.completed_snapshot(volume), aws.launched()
        give_role(aws, instance, "ebs:ListChangedBlocks")
        api = DirectApi(InstanceRole(serve_metadata(aws.cloud, instance)), aws.cloud.endpoint_url)
        assert api.changed_blocks(first, second) == ChangedPage([9], "", 4 * 1024**3)
        with pytest.raises(DirectApiRefused, match="UNRELATED_SNAPSHOTS"):
            api.changed_blocks(first, foreign)
        with pytest.raises(DirectApiRefused, match="ebs:ListSnapshotBlocks"):
            api.snapshot_blocks(first)


def give_role(aws: Any, instance: str, *actions: str) -> None:
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    may = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    trusts, policy = (json.dumps({"Version": "2012-10-17", "Statement": [one]}) for one in (trust, may))
    aws.iam.create_role(RoleName="of-host", AssumeRolePolicyDocument=trusts)
    aws.iam.put_role_policy(RoleName="of-host", PolicyName="may", PolicyDocument=policy)
    aws.iam.create_instance_profile(InstanceProfileName="of-host")
    aws.iam.add_role_to_instance_profile(InstanceProfileName="of-host", RoleName="of-host")
    aws.ec2.associate_iam_instance_profile(InstanceId=instance, IamInstanceProfile={"Name": "of-host"})


def test_blocks_are_listed_in_order_with_the_size_of_the_volume(place: Place) -> None:
    page = place.api.snapshot_blocks(place.snapshot)
    assert [index for index, _ in page.blocks] == [1, 4, 5]
    assert (page.next_token, page.volume_bytes) == ("", 4 * 1024**3)


def test_a_block_comes_whole(place: Place) -> None:
    tokens = place.tokens()
    assert {index: place.block(index, token).rstrip(b"\0") for index, token in tokens.items()} == CONTENT


def test_another_blocks_token_is_refused_by_name(place: Place) -> None:
    with pytest.raises(BlockTokenRefused, match="INVALID_BLOCK_TOKEN"):
        place.block(1, place.tokens()[4])


def test_a_snapshot_that_is_not_there_is_refused(place: Place) -> None:
    with pytest.raises(DirectApiRefused, match="SNAPSHOT_NOT_FOUND"):
        place.api.snapshot_blocks("snap-0123456789abcdef0")


def test_a_role_that_may_not_read_blocks_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    with open_cloud(tmp_path) as aws:
        volume = aws.available_volume()
        aws.plane.volumes.write(volume, CONTENT)
        snapshot, instance = aws.completed_snapshot(volume), aws.launched()
        give_role(aws, instance, "ebs:ListSnapshotBlocks")
        role = InstanceRole(serve_metadata(aws.cloud, instance))
        place = Place(DirectApi(role, aws.cloud.endpoint_url), snapshot)
        with pytest.raises(DirectApiRefused, match=r"AccessDenied.*perform: ebs:GetSnapshotBlock"):
            place.block(1, place.tokens()[1])


@pytest.mark.parametrize("damage", ["short", "checksum", "length"])
def test_a_block_that_is_not_whole_is_damaged_and_the_next_one_is_not_mixed_with_it(
    server: DirectApiServer, damage: str
) -> None:
    place = Place(DirectApi(InstanceRole(server.url), server.url), SNAPSHOT)
    tokens = place.tokens()
    server.damages[4] = [damage]
    with pytest.raises(BlockDamaged):
        place.block(4, tokens[4])
    assert place.block(5, tokens[5]).rstrip(b"\0") == b"five"


@pytest.mark.parametrize(
    ("status", "code", "throttled"),
    [
        (400, "ThrottlingException", True),
        (400, "RequestThrottledException", True),
        (503, "", True),
        (500, "InternalServerException", False),
        (403, "ExpiredTokenException", False),
    ],
)
def test_what_may_be_tried_again_is_busy(
    server: DirectApiServer, status: int, code: str, throttled: bool
) -> None:
    place = Place(DirectApi(InstanceRole(server.url), server.url), SNAPSHOT)
    token = place.tokens()[1]
    server.refusals.append((status, code, ""))
    with pytest.raises(DirectApiBusy) as busy:
        place.block(1, token)
    assert busy.value.numbers.get("throttled", False) is throttled


def test_a_server_that_is_gone_is_busy(server: DirectApiServer) -> None:
    place = Place(DirectApi(InstanceRole(server.url), "http://127.0.0.1:9"), SNAPSHOT)
    with pytest.raises(DirectApiBusy, match="does not answer"):
        place.tokens()


def test_an_instance_without_a_role_is_told_so(server: DirectApiServer) -> None:
    server.has_role = False
    place = Place(DirectApi(InstanceRole(server.url), server.url), SNAPSHOT)
    with pytest.raises(NoInstanceRole, match="instance profile"):
        place.tokens()


def test_credentials_are_asked_for_again_before_they_expire(server: DirectApiServer) -> None:
    now = [0.0]
    role = InstanceRole(server.url, now=lambda: now[0])
    first = role.credentials()
    assert role.credentials() is first
    now[0] = first.expires_at - 301
    assert role.credentials() is first
    now[0] = first.expires_at - 299
    assert role.credentials() is not first


def test_a_renewal_that_fails_leaves_the_old_credentials_to_their_end(server: DirectApiServer) -> None:
    """A fill of hours ended when the metadata service had nothing to say at the one moment of its renewal."""
    now = [0.0]
    role = InstanceRole(server.url, now=lambda: now[0])
    first = role.credentials()
    now[0] = first.expires_at - 299
    server.has_role = False
    assert role.credentials() is first
    server.has_role = True
    assert role.credentials() is first
    now[0] += 10
    assert role.credentials() is not first


def test_expired_credentials_are_not_used(server: DirectApiServer) -> None:
    now = [0.0]
    role = InstanceRole(server.url, now=lambda: now[0])
    now[0] = role.credentials().expires_at
    server.has_role = False
    for _ in range(2):
        with pytest.raises(NoInstanceRole):
            role.credentials()


def test_the_endpoint_is_of_the_instances_region(server: DirectApiServer) -> None:
    assert InstanceRole(server.url).endpoint("ebs") == "https://ebs.eu-west-1.amazonaws.com"
