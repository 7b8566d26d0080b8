"""Instances through EC2."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from peaker.adapters.aws_errors import translated
from peaker.adapters.ec2.account_lists import read_in_time
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import CapacityReservation, Instance, InstancePromise, InstanceSpec
from peaker_contract.errors import ResourceNotFound
from peaker_contract.names import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    OWNER_TAG,
    RUN_TAG,
    VOLUME_TAG,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import (
        CapacityReservationSpecificationTypeDef,
        DescribeInstancesResultTypeDef,
        FilterTypeDef,
        ImageTypeDef,
        InstanceTypeDef,
        TagTypeDef,
    )

# EC2 counts an instance's throughput in decimal megabytes.
_MIB_PER_MB = 1_000_000 / (1024 * 1024)
_NOT_GONE = ["pending", "running", "shutting-down", "stopping", "stopped"]
# Of EC2's largest pages, 1,000 instances each. The call's bucket of requests is shared by all that runs in the account.
MOST_PAGES = 20
_PAGE = 1_000
_TYPES_AT_ONCE = 200
# What EC2 calls the bill of images that run MySQL under Linux (botocore, CapacityReservationInstancePlatform).
_PLATFORMS = frozenset({"Linux/UNIX", "Red Hat Enterprise Linux", "RHEL with HA", "SUSE Linux", "Ubuntu Pro"})


class Ec2Compute:
    """Port Compute. Another environment of the same account may have a cluster of the same name."""

    def __init__(
        self, ec2: EC2Client, environment: str, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._ec2 = ec2
        self._environment = environment
        self._seconds = seconds

    def instances_of_cluster(self, cluster: str) -> list[Instance]:
        return self._describe({CLUSTER_TAG: cluster, ENVIRONMENT_TAG: self._environment})

    def instances_of_environment(self, cluster: str | None = None) -> list[Instance]:
        return self._describe(owned_by(self._environment, cluster))

    def instances_of_run(self, run_id: str) -> list[Instance]:
        return self._describe({RUN_TAG: run_id, OWNER_TAG: self._environment})

    def instance(self, instance_id: str) -> Instance:
        return _instance(described_instance(self._ec2, instance_id))

    def on_demand_instances(self) -> Sequence[Instance] | Unknown:
        pages = self._ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
            PaginationConfig={"PageSize": _PAGE},
        )
        with translated("ec2:DescribeInstances"):
            return read_in_time(pages, _counted, MOST_PAGES, "instances", self._seconds)

    def default_vcpus(self, instance_types: Sequence[str]) -> Mapping[str, int]:
        # By filter, which takes 200 values and knows no error for a type that there is not.
        found: dict[str, int] = {}
        for first in range(0, len(instance_types), _TYPES_AT_ONCE):
            named = list(instance_types[first : first + _TYPES_AT_ONCE])
            pages = self._ec2.get_paginator("describe_instance_types").paginate(
                Filters=[{"Name": "instance-type", "Values": named}]
            )
            with translated("ec2:DescribeInstanceTypes"):
                found |= {
                    one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"]
                    for page in pages
                    for one in page["InstanceTypes"]
                }
        return found

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        with translated("ec2:DescribeInstanceTypes"):
            answer = self._ec2.describe_instance_types(
                InstanceTypes=[instance_type]  # type: ignore[list-item]
            )
        found = answer["InstanceTypes"]
        if not found:
            return InstancePromise()
        [kind] = found
        says = kind.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
        return InstancePromise(
            baseline_iops=says.get("BaselineIops"),
            baseline_mib_per_s=_mib(says.get("BaselineThroughputInMBps")),
            maximum_iops=says.get("MaximumIops"),
            maximum_mib_per_s=_mib(says.get("MaximumThroughputInMBps")),
            architectures=tuple(kind.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
            memory_mib=kind.get("MemoryInfo", {}).get("SizeInMiB"),
            bandwidth_weightings=tuple(kind.get("NetworkInfo", {}).get("BandwidthWeightings", ())),
        )

    def image_keys(self, image_id: str) -> Sequence[str] | Unknown:
        image = self._image(image_id)
        disks = [mapping.get("Ebs", {}) for mapping in image.get("BlockDeviceMappings", [])]
        wanted = [disk["SnapshotId"] for disk in disks if disk.get("Encrypted") and "SnapshotId" in disk]
        if not wanted:
            return []
        # By filter, which knows no NotFound: snapshots that another account did not share are not listed.
        with translated("ec2:DescribeSnapshots"):
            answer = self._ec2.describe_snapshots(Filters=[{"Name": "snapshot-id", "Values": wanted}])
        seen = {one["SnapshotId"]: one.get("KmsKeyId") for one in answer["Snapshots"]}
        hidden = [one for one in wanted if not seen.get(one)]
        if hidden:
            return Unknown(
                f"EC2 does not show {', '.join(hidden)}; an image of another account keeps its snapshots"
            )
        return sorted({key for key in seen.values() if key})

    def image_devices(self, image_id: str) -> Sequence[str]:
        # An entry with NoDevice takes a name away.
        mappings = self._image(image_id).get("BlockDeviceMappings", [])
        return [one["DeviceName"] for one in mappings if "NoDevice" not in one]

    def platform(self, image_id: str) -> str | Unknown:
        platform = self._image(image_id).get("PlatformDetails", "")
        if platform in _PLATFORMS:
            return platform
        return Unknown(f"{image_id} is billed as {platform or 'nothing that EC2 names'}")

    def capacity_reservations(self) -> list[CapacityReservation]:
        pages = self._ec2.get_paginator("describe_capacity_reservations").paginate(
            Filters=[{"Name": "state", "Values": ["active", "pending"]}]
        )
        with translated("ec2:DescribeCapacityReservations"):
            return [
                CapacityReservation(
                    one["InstanceType"],
                    one["AvailableInstanceCount"],
                    one["InstanceMatchCriteria"] == "targeted",
                )
                for page in pages
                for one in page["CapacityReservations"]
            ]

    def launch(self, spec: InstanceSpec, client_token: str) -> Instance:
        profile: dict[str, Any] = (
            {"IamInstanceProfile": {"Name": spec.instance_profile}} if spec.instance_profile else {}
        )
        group = spec.capacity_reservation_group_arn
        room: dict[str, Any] = (
            {"CapacityReservationSpecification": _targeting(group)} if group is not None else {}
        )
        with translated("ec2:RunInstances"):
            answer = self._ec2.run_instances(
                ImageId=spec.image_id,
                InstanceType=spec.instance_type,  # type: ignore[arg-type]
                SubnetId=spec.subnet_id,
                SecurityGroupIds=list(spec.security_group_ids),
                MinCount=1,
                MaxCount=1,
                ClientToken=client_token,
                EbsOptimized=True,
                MetadataOptions={"HttpTokens": "required", "HttpEndpoint": "enabled"},
                TagSpecifications=[
                    {"ResourceType": "instance", "Tags": tag_list(spec.tags)},
                    {"ResourceType": "volume", "Tags": tag_list({**spec.tags, VOLUME_TAG: "root"})},
                ],
                **profile,
                **room,
            )
        return _instance(answer["Instances"][0])

    def stop(self, instance_id: str) -> None:
        with translated("ec2:StopInstances"):
            self._ec2.stop_instances(InstanceIds=[instance_id])

    def start(self, instance_id: str, capacity_reservation_group_arn: str | None = None) -> None:
        self._aim_at(instance_id, capacity_reservation_group_arn)
        with translated("ec2:StartInstances"):
            self._ec2.start_instances(InstanceIds=[instance_id])

    def terminate(self, instance_id: str) -> None:
        with suppress(ResourceNotFound), translated("ec2:TerminateInstances"):
            self._ec2.terminate_instances(InstanceIds=[instance_id])

    def _image(self, image_id: str) -> ImageTypeDef:
        with translated("ec2:DescribeImages"):
            found = self._ec2.describe_images(ImageIds=[image_id])["Images"]
        if not found:
            raise ResourceNotFound(f"ec2:DescribeImages: no image {image_id}")
        return found[0]

    def _aim_at(self, instance_id: str, group_arn: str | None) -> None:
        """Replaces the group that the instance was launched with: the settings name another one by now, or none.

        EC2 lets it be changed while the instance is stopped (ec2:ModifyInstanceCapacityReservationAttributes).
        """
        found = described_instance(self._ec2, instance_id)
        if found["State"]["Name"] != "stopped":
            return
        aims = found.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        if aims.get("CapacityReservationResourceGroupArn") == group_arn:
            return
        with translated("ec2:ModifyInstanceCapacityReservationAttributes"):
            self._ec2.modify_instance_capacity_reservation_attributes(
                InstanceId=instance_id, CapacityReservationSpecification=_targeting(group_arn)
            )

    def _describe(self, tags: Mapping[str, str]) -> list[Instance]:
        wanted: list[FilterTypeDef] = [
            *tag_filters(tags),
            {"Name": "instance-state-name", "Values": _NOT_GONE},
        ]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=wanted)
        with translated("ec2:DescribeInstances"):
            return [
                _instance(one)
                for page in pages
                for group in page["Reservations"]
                for one in group["Instances"]
            ]


def described_instance(ec2: EC2Client, instance_id: str) -> InstanceTypeDef:
    """EC2's own document of an instance. Raises ResourceNotFound."""
    with translated("ec2:DescribeInstances"):
        answer = ec2.describe_instances(InstanceIds=[instance_id])
    found = [one for group in answer["Reservations"] for one in group["Instances"]]
    if not found:
        raise ResourceNotFound(f"ec2:DescribeInstances: no instance {instance_id}")
    return found[0]


def _targeting(group_arn: str | None) -> CapacityReservationSpecificationTypeDef:
    """The group's room; without a group what EC2 does by itself: an open reservation that fits, else none.

    Where no reservation of the group has room, EC2 takes on-demand capacity (EC2 User Guide, "Launch instances into
    Capacity Reservations in a group"). It takes no preference beside a target but capacity-reservations-only.
    """
    if group_arn is None:
        return {"CapacityReservationPreference": "open"}
    return {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group_arn}}


def tag_filters(tags: Mapping[str, str]) -> list[FilterTypeDef]:
    """Filters for what carries all of these tags."""
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]


def owned_by(environment: str, cluster: str | None) -> dict[str, str]:
    """The tags of what an environment owns, of one cluster or of all."""
    return {OWNER_TAG: environment} if cluster is None else {OWNER_TAG: environment, CLUSTER_TAG: cluster}


def tag_list(tags: Mapping[str, str]) -> list[TagTypeDef]:
    """Tags as EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tag_dict(tags: Sequence[TagTypeDef] | None) -> dict[str, str]:
    """Tags as EC2 gives them."""
    return {tag.get("Key", ""): tag.get("Value", "") for tag in tags or []}


def _instance(raw: InstanceTypeDef) -> Instance:
    return Instance(
        instance_id=raw["InstanceId"],
        state=raw["State"]["Name"],
        private_ip=raw.get("PrivateIpAddress", ""),
        zone=raw["Placement"]["AvailabilityZone"],
        instance_type=raw["InstanceType"],
        launched_at=raw["LaunchTime"],
        tags=tag_dict(raw.get("Tags")),
        client_token=raw.get("ClientToken") or None,
        billed_as=raw.get("PlatformDetails") or None,
        state_reason=raw.get("StateReason", {}).get("Message", ""),
    )


def _counted(page: DescribeInstancesResultTypeDef) -> list[Instance]:
    """The instances that count in a quota of on-demand vCPUs: spot instances, capacity blocks and dedicated hosts have
    quotas of their own.
    """
    return [
        _instance(one)
        for group in page["Reservations"]
        for one in group["Instances"]
        if one.get("InstanceLifecycle") is None and one["Placement"].get("Tenancy") != "host"
    ]


def _mib(mb_per_s: float | None) -> float | None:
    return None if mb_per_s is None else round(mb_per_s * _MIB_PER_MB, 2)
