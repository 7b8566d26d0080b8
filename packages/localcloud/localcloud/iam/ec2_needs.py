"""What EC2's calls need: every resource that they touch or make, each with its tags, and the tags that they set.

Resource types per action from the Service Authorization Reference; "Grant permission to tag Amazon EC2 resources
during creation" for ec2:CreateAction; "Requirements for Amazon EBS encryption" for customer-managed keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from localcloud.iam.account import Account
from localcloud.iam.need import Need, Needs, Params, arn, listed
from localcloud.iam.policy import Tags

PREFIXES = {
    "i": "instance",
    "vol": "volume",
    "snap": "snapshot",
    "eni": "network-interface",
    "sg": "security-group",
    "subnet": "subnet",
    "ami": "image",
    "vpc": "vpc",
    "cr": "capacity-reservation",
}
WITHOUT_ACCOUNT = {"image", "snapshot"}
# What EBS does for the caller with a customer-managed key: (action, whether it is through a grant).
VOLUME_KEY_ACTIONS = (
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)


def ec2_arn(look: Account, kind: str, name: str = "*") -> str:
    return arn(look, "ec2", f"{kind}/{name}", account="" if kind in WITHOUT_ACCOUNT else None)


def existing(look: Account, action: str, kind: str, resource_id: str) -> Need:
    return Need(
        f"ec2:{action}", ec2_arn(look, kind, resource_id), kind, resource_tags=look.ec2_tags(resource_id)
    )


def _made(look: Account, action: str, kind: str, tags: Tags) -> Iterator[Need]:
    """A resource that the call makes, and the tags that it gets with it."""
    yield Need(f"ec2:{action}", ec2_arn(look, kind), kind, request_tags=tags, resource_tags={})
    if tags:
        yield Need(
            "ec2:CreateTags",
            ec2_arn(look, kind),
            kind,
            {"ec2:createaction": (action,)},
            request_tags=tags,
            resource_tags={},
        )


def _tags(params: Params, kind: str) -> dict[str, str]:
    return {
        tag["Key"]: tag.get("Value", "")
        for specification in listed(params.get("TagSpecifications"))
        if specification.get("ResourceType") == kind
        for tag in listed(specification.get("Tags"))
    }


def _on_instances(action: str) -> Needs:
    return lambda params, look: (
        existing(look, action, "instance", one) for one in listed(params["InstanceIds"])
    )


def _on_one(action: str, kind: str, parameter: str) -> Needs:
    return lambda params, look: [existing(look, action, kind, params[parameter])]


def _attach_volume(params: Params, look: Account) -> Iterator[Need]:
    yield existing(look, "AttachVolume", "instance", params["InstanceId"])
    yield existing(look, "AttachVolume", "volume", params["VolumeId"])


def _detach_volume(params: Params, look: Account) -> Iterator[Need]:
    if params.get("InstanceId"):
        yield existing(look, "DetachVolume", "instance", params["InstanceId"])
    yield existing(look, "DetachVolume", "volume", params["VolumeId"])


def _create_volume(params: Params, look: Account) -> Iterator[Need]:
    yield from _made(look, "CreateVolume", "volume", _tags(params, "volume"))
    snapshot = params.get("SnapshotId")
    if snapshot:
        yield existing(look, "CreateVolume", "snapshot", snapshot)
    yield from _volume_key(look, snapshot, params.get("KmsKeyId"))


def _volume_key(look: Account, snapshot: str | None, key_id: str | None) -> Iterator[Need]:
    """What EBS needs of the customer-managed keys of a volume's snapshot and its own; of AWS's key, nothing."""
    keys = {look.key_of_snapshot(snapshot) if snapshot else None, look.customer_key(key_id)}
    via = {"kms:viaservice": (f"ec2.{look.region}.amazonaws.com",), "kms:calleraccount": (look.account_id,)}
    for key in sorted(key for key in keys if key):
        for action in VOLUME_KEY_ACTIONS:
            yield Need(f"kms:{action}", key, "key", via, asynchronous=True)
        for_ebs = {**via, "kms:grantisforawsresource": ("true",)}
        yield Need("kms:CreateGrant", key, "key", for_ebs, asynchronous=True)


def _create_snapshot(params: Params, look: Account) -> Iterator[Need]:
    yield existing(look, "CreateSnapshot", "volume", params["VolumeId"])
    yield from _made(look, "CreateSnapshot", "snapshot", _tags(params, "snapshot"))


def _create_snapshots(params: Params, look: Account) -> Iterator[Need]:
    specification = params["InstanceSpecification"]
    instance = specification["InstanceId"]
    yield existing(look, "CreateSnapshots", "instance", instance)
    left_out = set(listed(specification.get("ExcludeDataVolumeIds")))
    for volume, is_root in look.volumes_of(instance):
        if volume not in left_out and not (is_root and specification.get("ExcludeBootVolume")):
            yield existing(look, "CreateSnapshots", "volume", volume)
    yield from _made(look, "CreateSnapshots", "snapshot", _tags(params, "snapshot"))


def _tag(action: str) -> Needs:
    def needs(params: Params, look: Account) -> Iterator[Need]:
        tags = {tag["Key"]: tag.get("Value", "") for tag in listed(params.get("Tags"))}
        for one in listed(params["Resources"]):
            kind = PREFIXES.get(one.split("-")[0], "")
            yield Need(
                f"ec2:{action}",
                ec2_arn(look, kind, one),
                kind,
                {"ec2:createaction": None},
                request_tags=tags,
                resource_tags=look.ec2_tags(one),
            )

    return needs


def _run_instances(params: Params, look: Account) -> Iterator[Need]:
    action = "RunInstances"
    interfaces = listed(params.get("NetworkInterfaces"))
    subnet = params.get("SubnetId") or next(
        (each["SubnetId"] for each in interfaces if "SubnetId" in each), None
    )
    subnet = subnet or look.default_subnet((params.get("Placement") or {}).get("AvailabilityZone"))
    groups = [
        *listed(params.get("SecurityGroupIds")),
        *(group for each in interfaces for group in listed(each.get("Groups"))),
    ] or [look.default_security_group(subnet)]
    yield existing(look, action, "image", params["ImageId"])
    yield existing(look, action, "subnet", subnet)
    for group in groups:
        yield existing(look, action, "security-group", group)
    for kind in ("instance", "volume", "network-interface"):
        yield from _made(look, action, kind, _tags(params, kind))
    if params.get("KeyName"):
        yield Need(f"ec2:{action}", ec2_arn(look, "key-pair", params["KeyName"]), "key-pair")
    yield from _volume_key(look, look.snapshot_of_image(params["ImageId"]), None)
    for mapping in listed(params.get("BlockDeviceMappings")):
        ebs = mapping.get("Ebs") or {}
        if ebs.get("SnapshotId"):
            yield existing(look, action, "snapshot", ebs["SnapshotId"])
        yield from _volume_key(look, ebs.get("SnapshotId"), ebs.get("KmsKeyId"))
    yield from _targeted(params, look, action)
    profile = params.get("IamInstanceProfile") or {}
    named = profile.get("Arn") or profile.get("Name")
    role = look.role_of_profile(named) if named else None
    if role:
        yield Need("iam:PassRole", role, "role", {"iam:passedtoservice": ("ec2.amazonaws.com",)})


def _targeted(params: Params, look: Account, action: str) -> Iterator[Need]:
    """The reservation or the resource group that the call names."""
    target = (params.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
    if target.get("CapacityReservationId"):
        yield existing(look, action, "capacity-reservation", target["CapacityReservationId"])
    # Of the two calls RunInstances alone is authorized on groups (Service Authorization Reference).
    if target.get("CapacityReservationResourceGroupArn") and action == "RunInstances":
        yield Need(f"ec2:{action}", target["CapacityReservationResourceGroupArn"], "group")


def _reserve_capacity(params: Params, look: Account) -> Iterator[Need]:
    action, kind = "CreateCapacityReservation", "capacity-reservation"
    keys = {
        "ec2:instancetype": (str(params["InstanceType"]),),
        "ec2:instanceplatform": (str(params["InstancePlatform"]),),
        "ec2:instancecount": (str(params["InstanceCount"]),),
        "ec2:enddatetype": (str(params.get("EndDateType", "unlimited")),),
        "ec2:instancematchcriteria": (str(params.get("InstanceMatchCriteria", "open")),),
    }
    made, *tagged = _made(look, action, kind, _tags(params, kind))
    yield replace(made, keys=keys)
    yield from tagged


def _aim(params: Params, look: Account) -> Iterator[Need]:
    action = "ModifyInstanceCapacityReservationAttributes"
    yield existing(look, action, "instance", params["InstanceId"])
    yield from _targeted(params, look, action)


EC2: dict[str, Needs] = {
    "ec2:CreateCapacityReservation": _reserve_capacity,
    "ec2:CancelCapacityReservation": _on_one(
        "CancelCapacityReservation", "capacity-reservation", "CapacityReservationId"
    ),
    "ec2:ModifyInstanceCapacityReservationAttributes": _aim,
    "ec2:RunInstances": _run_instances,
    "ec2:TerminateInstances": _on_instances("TerminateInstances"),
    "ec2:StopInstances": _on_instances("StopInstances"),
    "ec2:StartInstances": _on_instances("StartInstances"),
    "ec2:RebootInstances": _on_instances("RebootInstances"),
    "ec2:ModifyInstanceAttribute": _on_one("ModifyInstanceAttribute", "instance", "InstanceId"),
    "ec2:AttachVolume": _attach_volume,
    "ec2:DetachVolume": _detach_volume,
    "ec2:CreateVolume": _create_volume,
    "ec2:DeleteVolume": _on_one("DeleteVolume", "volume", "VolumeId"),
    "ec2:ModifyVolume": _on_one("ModifyVolume", "volume", "VolumeId"),
    "ec2:CreateSnapshot": _create_snapshot,
    "ec2:CreateSnapshots": _create_snapshots,
    "ec2:DeleteSnapshot": _on_one("DeleteSnapshot", "snapshot", "SnapshotId"),
    "ec2:CreateTags": _tag("CreateTags"),
    "ec2:DeleteTags": _tag("DeleteTags"),
    "ebs:ListSnapshotBlocks": lambda params, look: [_of_snapshot(params, look, "ListSnapshotBlocks")],
    "ebs:GetSnapshotBlock": lambda params, look: [_of_snapshot(params, look, "GetSnapshotBlock")],
}


def _of_snapshot(params: Params, look: Account, action: str) -> Need:
    snapshot = params["SnapshotId"]
    tags = look.ec2_tags(snapshot)
    return Need(f"ebs:{action}", ec2_arn(look, "snapshot", snapshot), "snapshot", resource_tags=tags)
