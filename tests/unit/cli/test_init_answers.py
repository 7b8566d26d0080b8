"""What `peaker init --from` reads is refused where it is not what the three lines write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peaker_cli.failures import ControlPlaneError
from peaker_cli.init.answers import LINES, answers_in

HOST: dict[str, Any] = {
    "InstanceId": "i-0123456789abcdef0", "ImageId": "ami-0123456789abcdef0", "InstanceType": "r6i.large",
    "VpcId": "vpc-0123456789abcdef0", "SubnetId": "subnet-0123456789abcdef0",
    "Placement": {"AvailabilityZone": "us-east-1a"},
    "SecurityGroups": [{"GroupId": "sg-0123456789abcdef0"}], "CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 2},
}  # fmt: skip
VOLUME: dict[str, Any] = {
    "VolumeId": "vol-0123456789abcdef0",
    "VolumeType": "gp3",
    "Iops": 3000,
    "Attachments": [],
}
SUBNET = {"SubnetId": "subnet-0123456789abcdef0", "AvailabilityZone": "us-east-1a"}


def written(
    path: Path, host: dict[str, Any], volume: dict[str, Any], account: object = "123456789012"
) -> Path:
    documents = (
        {"Reservations": [{"OwnerId": account, "Instances": [HOST | host]}]},
        {"Volumes": [VOLUME | volume]},
        {"Subnets": [SUBNET]},
    )
    path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    return path


def test_the_lines_write_json_whatever_the_profile_says() -> None:
    assert [line for line in LINES if " --output json >" not in line] == []


def test_what_the_lines_write_is_read(tmp_path: Path) -> None:
    assert len(answers_in(written(tmp_path / "describe.json", {}, {})).instances) == 1


@pytest.mark.parametrize(
    ("host", "volume", "account"),
    [
        ({"SecurityGroups": "sg-1"}, {}, "123456789012"),
        ({"IamInstanceProfile": "hosts"}, {}, "123456789012"),
        ({"CpuOptions": {"CoreCount": "two"}}, {}, "123456789012"),
        ({"Placement": {}}, {}, "123456789012"),
        ({"Tags": "orders"}, {}, "123456789012"),
        ({}, {"Iops": "many"}, "123456789012"),
        ({}, {"Throughput": [125]}, "123456789012"),
        ({}, {"Iops": -3000}, "123456789012"),
        ({}, {"Attachments": "x"}, "123456789012"),
        ({}, {}, "12"),
        ({}, {}, None),
    ],
)
def test_what_no_line_writes_is_refused_with_the_lines_to_type(
    tmp_path: Path, host: dict[str, Any], volume: dict[str, Any], account: object
) -> None:
    with pytest.raises(ControlPlaneError, match="is not what these lines write"):
        answers_in(written(tmp_path / "describe.json", host, volume, account))
