"""AWS's answers about a cluster's hosts, asked or read from a file, and the hosts that are meant among them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peaker_cli.failures import ControlPlaneError

Raw = Mapping[str, Any]
# What a person types without access of Peaker's to the account; --help prints them.
LINES = (
    "aws ec2 describe-instances --instance-ids SOURCE REPLICA --output json > describe.json",
    "aws ec2 describe-volumes --filters Name=attachment.instance-id,Values=REPLICA --output json >> describe.json",
    "aws ec2 describe-subnets --filters Name=vpc-id,Values=VPC --output json >> describe.json",
)
_ID = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")
_TAG = re.compile(r"tag:([^=]+)=(.+)")
_GONE = ("shutting-down", "terminated")


@dataclass(frozen=True)
class Answers:
    """EC2's descriptions of instances, of the replicas' volumes, and of the VPC's subnets."""

    instances: Sequence[Raw]
    volumes: Sequence[Raw]
    subnets: Sequence[Raw]

    def volumes_of(self, instance: Raw) -> dict[str, Raw]:
        """Returns the instance's data volumes by the device that they are attached under."""
        root = instance.get("RootDeviceName")
        found = {
            str(one["Device"]): volume
            for volume in self.volumes
            for one in volume.get("Attachments", ())
            if one.get("InstanceId") == instance["InstanceId"] and one.get("Device") != root
        }
        return dict(
            sorted(found.items(), key=lambda one: one[0].removeprefix("/dev/xvd").removeprefix("/dev/sd"))
        )


def tags_of(described: Raw) -> dict[str, str]:
    return {one["Key"]: one["Value"] for one in described.get("Tags", ())}


def answers_in(path: Path) -> Answers:
    """Reads what the three `aws` lines wrote, one JSON document after the other. Raises ControlPlaneError."""
    typed = "\n  ".join(LINES)
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ControlPlaneError(
            f"--from {path}: cannot be read: {error}; it is made by\n  {typed}"
        ) from error
    found: dict[str, list[Any]] = {"Reservations": [], "Volumes": [], "Subnets": []}
    decoder, at = json.JSONDecoder(), 0
    try:
        while at < len(text):
            document, end = decoder.raw_decode(text, at)
            for one in document if isinstance(document, list) else [document]:
                for name, kept in found.items():
                    kept += one.get(name, [])
            at = end + len(text[end:]) - len(text[end:].lstrip())
        answers = Answers(_instances(found["Reservations"]), found["Volumes"], found["Subnets"])
        _refuse_incomplete(answers)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ControlPlaneError(
            f"--from {path}: is not what these lines write ({type(error).__name__}: {str(error)[:80]}); type them anew:"
            f"\n  {typed}"
        ) from error
    missing = [line for line, kept in zip(LINES, found.values(), strict=True) if not kept]
    if missing:
        raise ControlPlaneError(f"--from {path}: lacks the output of\n  " + "\n  ".join(missing))
    return answers


def _refuse_incomplete(answers: Answers) -> None:
    """Raises KeyError, ValueError, TypeError or AttributeError where a field is not there, or of another kind."""
    for one in answers.instances:
        _ = (
            one["InstanceId"],
            one["OwnerId"],
            one["VpcId"],
            one["SubnetId"],
            one["ImageId"],
            one["InstanceType"],
        )
        _ = (one["Placement"]["AvailabilityZone"], one.get("Architecture"), tags_of(one))
        _ = [group["GroupId"] for group in one.get("SecurityGroups", ())]
        _ = dict(one.get("IamInstanceProfile") or {})
        processors = dict(one.get("CpuOptions") or {})
        _ = [int(processors.get(name) or 0) for name in ("CoreCount", "ThreadsPerCore")]
        if not re.fullmatch(r"[0-9]{12}", str(one["OwnerId"])):
            raise ValueError(f"OwnerId {one['OwnerId']!r}")
    for one in answers.volumes:
        _ = (
            one["VolumeId"],
            one["VolumeType"],
            [found.get("Device") for found in one.get("Attachments", ())],
        )
        for name in ("Iops", "Throughput"):
            if float(one.get(name) or 0) < 0:
                raise ValueError(f"{name} {one[name]}")
    for one in answers.subnets:
        _ = (one["SubnetId"], one["AvailabilityZone"])


def _instances(reservations: Sequence[Raw]) -> list[Raw]:
    return [{**one, "OwnerId": group["OwnerId"]} for group in reservations for one in group["Instances"]]


def ask_for(client: Callable[[str], Any], source: str, replicas: Sequence[str]) -> Answers:
    """Asks EC2 the same three questions. Raises ControlPlaneError, and AWS's errors."""
    ec2 = client("ec2")
    instances: dict[str, Raw] = {}
    for wanted, option in ((source, "--source"), *((one, "--replica") for one in replicas)):
        pages = ec2.get_paginator("describe_instances").paginate(Filters=[_filter(wanted, option)])
        found = [one for page in pages for one in _instances(page["Reservations"])]
        instances |= {str(one["InstanceId"]): one for one in found}
    described = list(instances.values())
    meant = [one for wanted in replicas for one in chosen(described, wanted, "--replica")]
    attached = {"Name": "attachment.instance-id", "Values": [one["InstanceId"] for one in meant]}
    of_vpc = {"Name": "vpc-id", "Values": [meant[0]["VpcId"]]}
    pages = ec2.get_paginator("describe_volumes").paginate(Filters=[attached])
    subnets = ec2.get_paginator("describe_subnets").paginate(Filters=[of_vpc])
    return Answers(
        described,
        [one for page in pages for one in page["Volumes"]],
        [one for page in subnets for one in page["Subnets"]],
    )


def _filter(wanted: str, option: str) -> dict[str, Any]:
    if _ID.fullmatch(wanted):
        return {"Name": "instance-id", "Values": [wanted]}
    if named := _TAG.fullmatch(wanted):
        return {"Name": f"tag:{named[1]}", "Values": [named[2]]}
    raise ControlPlaneError(
        f"{option} {wanted[:80]!r}: is neither an instance id such as i-0123456789abcdef0 nor a tag such as "
        "tag:Name=orders-replica"
    )


def chosen(instances: Sequence[Raw], wanted: str, option: str) -> list[Raw]:
    """Returns the instances of that id or tag that are there. Raises ControlPlaneError where none is."""
    by = _filter(wanted, option)
    name, [value] = by["Name"], by["Values"]
    found = [
        one
        for one in instances
        if one.get("State", {}).get("Name") not in _GONE
        and (one["InstanceId"] == value if name == "instance-id" else tags_of(one).get(name[4:]) == value)
    ]
    if not found:
        raise ControlPlaneError(
            f"{option} {wanted}: there is no such instance here; see the id, or --region and --profile "
            "(with --from: the first line's --instance-ids)"
        )
    return found


def the_source(instances: Sequence[Raw], wanted: str) -> Raw:
    """Returns the one instance that is the source. Raises ControlPlaneError."""
    found = chosen(instances, wanted, "--source")
    if len(found) > 1:
        ids = ", ".join(one["InstanceId"] for one in found)
        raise ControlPlaneError(f"--source {wanted}: {ids} all have that tag: give the id of the one")
    return found[0]
