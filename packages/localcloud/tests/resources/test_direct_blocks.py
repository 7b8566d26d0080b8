"""ebs:GetSnapshotBlock of the local cloud, used through boto3: tokens, limits, keys, checksum."""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from werkzeug.test import Client

from cloud_rig.resources import ResourceCloud, open_cloud
from localcloud.extensions.ec2.direct_blocks import RequestRate, block_application

BLOCK = 512 * 1024


def snapshot_with(aws: ResourceCloud, blocks: dict[int, bytes]) -> str:
    volume_id = aws.available_volume()
    aws.plane.volumes.write(volume_id, blocks)
    return aws.completed_snapshot(volume_id)


def tokens(aws: ResourceCloud, snapshot_id: str) -> dict[int, str]:
    listed = aws.ebs.list_snapshot_blocks(SnapshotId=snapshot_id)["Blocks"]
    return {one["BlockIndex"]: one["BlockToken"] for one in listed}


def refusal(aws: ResourceCloud, snapshot_id: str, index: int, token: str) -> tuple[str, str]:
    """(code, reason) of a request that must be refused."""
    with pytest.raises(ClientError) as caught:
        aws.ebs.get_snapshot_block(SnapshotId=snapshot_id, BlockIndex=index, BlockToken=token)
    answer: Any = caught.value.response
    return answer["Error"]["Code"], answer.get("Reason", "")


def test_a_block_comes_whole_with_its_length_and_checksum(aws: ResourceCloud) -> None:
    snapshot_id = snapshot_with(aws, {7: b"rows"})
    answer = aws.ebs.get_snapshot_block(
        SnapshotId=snapshot_id, BlockIndex=7, BlockToken=tokens(aws, snapshot_id)[7]
    )
    content = answer["BlockData"].read()
    assert content == b"rows".ljust(BLOCK, b"\0")
    assert answer["DataLength"] == BLOCK
    assert answer["ChecksumAlgorithm"] == "SHA256"
    assert answer["Checksum"] == base64.b64encode(hashlib.sha256(content).digest()).decode()


def test_a_token_is_good_for_its_block_alone(aws: ResourceCloud) -> None:
    snapshot_id = snapshot_with(aws, {1: b"a", 2: b"b"})
    other = snapshot_with(aws, {1: b"a"})
    token = tokens(aws, snapshot_id)[1]
    invalid = ("ValidationException", "INVALID_BLOCK_TOKEN")
    assert refusal(aws, snapshot_id, 2, token) == invalid
    assert refusal(aws, other, 1, token) == invalid
    assert refusal(aws, snapshot_id, 1, "bm90IGEgdG9rZW4=") == invalid
    assert refusal(aws, snapshot_id, 1, "////////") == invalid


def test_a_token_expires_after_seven_days(aws: ResourceCloud) -> None:
    snapshot_id = snapshot_with(aws, {1: b"a"})
    old = tokens(aws, snapshot_id)[1]
    now = aws.cloud.clock.now()
    aws.cloud.clock.set(now=(now + timedelta(days=6, hours=23)))
    assert aws.ebs.get_snapshot_block(SnapshotId=snapshot_id, BlockIndex=1, BlockToken=old)
    aws.cloud.clock.set(now=(now + timedelta(days=7, hours=1)))
    assert refusal(aws, snapshot_id, 1, old) == ("ValidationException", "INVALID_BLOCK_TOKEN")
    fresh = tokens(aws, snapshot_id)[1]
    assert aws.ebs.get_snapshot_block(SnapshotId=snapshot_id, BlockIndex=1, BlockToken=fresh)


def test_a_snapshot_that_is_not_there(aws: ResourceCloud) -> None:
    found = refusal(aws, "snap-0123456789abcdef0", 0, "bm9uZQ==")
    assert found == ("ResourceNotFoundException", "SNAPSHOT_NOT_FOUND")


def test_above_the_rate_of_a_snapshot_requests_are_throttled_and_others_go_on(tmp_path: Path) -> None:
    """On a clock that stands still: three at once of a snapshot, five of the account."""
    with open_cloud(
        tmp_path, block_requests_per_second_of_snapshot=3, block_requests_per_second_of_account=5
    ) as aws:
        snapshot_id, other = snapshot_with(aws, {1: b"a"}), snapshot_with(aws, {1: b"b"})
        token, token_of_other = tokens(aws, snapshot_id)[1], tokens(aws, other)[1]
        blocks = Client(block_application(aws.cloud, now=lambda: 100.0))
        assert [said(blocks, snapshot_id, token) for _ in range(3)] == [(200, "", "")] * 3
        throttled = (400, "RequestThrottledException", "RESOURCE_LEVEL_THROTTLE")
        assert said(blocks, snapshot_id, token) == throttled
        assert said(blocks, other, token_of_other) == (200, "", "")
        assert said(blocks, other, token_of_other) == (400, "ThrottlingException", "ACCOUNT_THROTTLED")


def said(blocks: Client, snapshot_id: str, token: str) -> tuple[int, str, str]:
    """(status, error, reason) of one request."""
    answer = blocks.get(f"/snapshots/{snapshot_id}/blocks/1?blockToken={quote(token, safe='')}")
    error = answer.headers.get("x-amzn-ErrorType", "")
    return answer.status_code, error, answer.json["Reason"] if error else ""


def test_a_failure_that_is_asked_for_comes_instead_of_the_block(aws: ResourceCloud) -> None:
    snapshot_id = snapshot_with(aws, {1: b"a"})
    token = tokens(aws, snapshot_id)[1]
    aws.cloud.faults.add("ebs:GetSnapshotBlock", "InvalidSignatureException", times=1)
    assert refusal(aws, snapshot_id, 1, token) == ("InvalidSignatureException", "")
    assert aws.ebs.get_snapshot_block(SnapshotId=snapshot_id, BlockIndex=1, BlockToken=token)


def test_a_rate_refills_with_time_up_to_a_second_s_worth() -> None:
    now = [100.0]
    rate = RequestRate(4, now=lambda: now[0])
    assert [rate.take() for _ in range(5)] == [True] * 4 + [False]
    now[0] += 0.5
    assert [rate.take() for _ in range(3)] == [True, True, False]
    now[0] += 60
    assert [rate.take() for _ in range(5)] == [True] * 4 + [False]
