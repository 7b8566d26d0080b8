"""What EC2, EBS and a load balancer answer where a run depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from peaker_cli.rehearse.resources import DEVICES, Resources, answer_of, same

# A request that EBS must refuse, and the code.
_VOLUMES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "CreateVolume: 501 IOPS per GiB": ({"Size": 100, "Iops": 50_100}, "InvalidParameterValue"),
    "CreateVolume: 0.26 MiB/s per IOPS": ({"Throughput": 780}, "InvalidParameterValue"),
    "CreateVolume: 124 MiB/s": ({"Throughput": 124}, "InvalidParameterValue"),
    "CreateVolume: 2,999 IOPS": ({"Iops": 2_999}, "InvalidParameterValue"),
    "CreateVolume: gp2 with IOPS": ({"VolumeType": "gp2"}, "InvalidParameterCombination"),
    "CreateVolume: io2 without IOPS": ({"VolumeType": "io2", "Size": 4}, "MissingParameter"),
    "CreateVolume: a rate without a snapshot": (
        {"VolumeInitializationRate": 200},
        "InvalidParameterCombination",
    ),
}
_OF_A_SNAPSHOT: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "CreateVolume: a rate of 99 MiB/s": ({"VolumeInitializationRate": 99}, "InvalidParameterValue"),
    "CreateVolume: a rate of 301 MiB/s": ({"VolumeInitializationRate": 301}, "InvalidParameterValue"),
}

EC2: Mapping[str, str] = {
    "RunInstances again with its token": "the same one",
    "RunInstances, its token, another type": "IdempotentParameterMismatch",
    "CreateVolume again with its token": "the same one",
    "CreateVolume, its token, another size": "IdempotentParameterMismatch",
    "CreateVolume as a dry run": "DryRunOperation",
    **{name: code for name, (_, code) in (*_VOLUMES.items(), *_OF_A_SNAPSHOT.items())},
    "AttachVolume at a device in use": "InvalidParameterValue",
    "AttachVolume of a volume in use": "VolumeInUse",
    "DeleteVolume of a volume in use": "VolumeInUse",
}
SNAPSHOTS: Mapping[str, str] = {
    "CreateSnapshots of one volume": "of that volume",
    "tags of the volume and of the call": "both",
}


def ask_ec2(resources: Resources) -> dict[str, str]:
    """Asks EC2 and EBS; nothing is made but a small volume that is free."""
    ec2 = resources.client("ec2")
    (filled,), (cold,) = resources.volumes("filled"), resources.volumes("cold")
    launch = resources.launch_request
    again = {**resources.volume_request("free"), "Size": 1}
    free = ec2.create_volume(**again)["VolumeId"]
    resources.seconds_until("the free volume", lambda: resources.volume_state("free") == "available")
    found = {
        "RunInstances again with its token": same(
            ec2.run_instances(**launch)["Instances"][0]["InstanceId"], resources.instance()
        ),
        "RunInstances, its token, another type": answer_of(
            lambda: ec2.run_instances(**{**launch, "InstanceType": _other(launch)})
        ),
        "CreateVolume again with its token": same(ec2.create_volume(**again)["VolumeId"], free),
        "CreateVolume, its token, another size": answer_of(lambda: ec2.create_volume(**{**again, "Size": 2})),
        "CreateVolume as a dry run": answer_of(
            lambda: ec2.create_volume(**resources.volume_request("dry"), DryRun=True)
        ),
        "AttachVolume at a device in use": answer_of(
            lambda: ec2.attach_volume(
                VolumeId=free, InstanceId=resources.instance(), Device=DEVICES["filled"]
            )
        ),
        "AttachVolume of a volume in use": answer_of(
            lambda: ec2.attach_volume(
                VolumeId=cold["VolumeId"], InstanceId=resources.instance(), Device="/dev/sdp"
            )
        ),
        "DeleteVolume of a volume in use": answer_of(lambda: ec2.delete_volume(VolumeId=filled["VolumeId"])),
    }
    of_snapshot = {"SnapshotId": resources.snapshot()}
    refused = [(name, _refused(resources, changes)) for name, (changes, _) in _VOLUMES.items()]
    for name, (changes, _) in _OF_A_SNAPSHOT.items():
        refused.append((name, _refused(resources, {**of_snapshot, **changes})))
    for name, asked in refused:
        found[name] = answer_of(partial(ec2.create_volume, **asked))
    return found


def _other(launch: Mapping[str, Any]) -> str:
    family = str(launch["InstanceType"]).split(".")[0]
    return f"{family}.xlarge" if str(launch["InstanceType"]).endswith(".large") else f"{family}.large"


def _refused(resources: Resources, changes: Mapping[str, Any]) -> dict[str, Any]:
    request = resources.volume_request("refused")
    # Each is a request of its own, not one with the token of another.
    del request["ClientToken"]
    if changes.get("VolumeType"):
        del request["Throughput"]
    if changes.get("VolumeType") == "io2":
        del request["Iops"]
    return {**request, **changes}


def ask_snapshots(resources: Resources) -> dict[str, str]:
    """Snapshots one volume of the instance; its Name tag is the volume's, the others are given."""
    ec2 = resources.client("ec2")
    attached = {name: one["VolumeId"] for name in DEVICES for one in resources.volumes(name)}
    volume = attached.pop("filled")
    given = [tag for tag in resources.tags("snapshot", "")[0]["Tags"] if tag["Key"] != "Name"]
    (made,) = ec2.create_snapshots(
        InstanceSpecification={
            "InstanceId": resources.instance(),
            "ExcludeBootVolume": True,
            "ExcludeDataVolumeIds": list(attached.values()),
        },
        CopyTagsFromSource="volume",
        TagSpecifications=[{"ResourceType": "snapshot", "Tags": given}],
    )["Snapshots"]

    def tags() -> dict[str, str]:
        shown = [one for one in resources.snapshots() if one["SnapshotId"] == made["SnapshotId"]]
        return {tag["Key"]: tag["Value"] for one in shown for tag in one.get("Tags", [])}

    resources.seconds_until("the snapshot", tags)
    both = tags().get("Name") == resources.name_tag("filled") and len(tags()) == len(given) + 1
    return {
        "CreateSnapshots of one volume": "of that volume"
        if made["VolumeId"] == volume
        else str(made["VolumeId"]),
        "tags of the volume and of the call": "both" if both else ", ".join(sorted(tags())),
    }


TARGETS: Mapping[str, str] = {
    "a target that was just deregistered": "draining, Target.DeregistrationInProgress",
    "a target registered while it drains": "initial, Elb.RegistrationInProgress",
}


def ask_target_group(resources: Resources) -> dict[str, str]:
    """Deregisters the healthy target and registers it again; it ends healthy."""
    elb, group = resources.client("elbv2"), resources.target_group()
    asked = {"TargetGroupArn": group, "Targets": resources.targets}
    elb.deregister_targets(**asked)
    found = {"a target that was just deregistered": _state(resources, group)}
    elb.register_targets(**asked)
    found["a target registered while it drains"] = _state(resources, group)
    resources.seconds_until("the target", lambda: resources.target_state(group) == "healthy", at_most=1800)
    return found


def _state(resources: Resources, group: str) -> str:
    health = resources.target_health(group)
    return f"{health['State']}, {health.get('Reason', '')}"
