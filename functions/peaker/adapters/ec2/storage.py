"""Volumes and snapshots through EC2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker.adapters.ec2.account_lists import read_in_time
from peaker.adapters.ec2.compute import described_instance, owned_by, tag_dict, tag_filters, tag_list
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Snapshot, Volume, VolumeSpec
from peaker_contract.errors import (
    ResourceNotFound,
    SnapshotsPending,
    UndoInProgress,
    VolumeFailed,
    VolumeVanished,
)
from peaker_contract.names import OWNER_TAG, RUN_TAG, VOLUME_TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import (
        DescribeVolumesResultTypeDef,
        FilterTypeDef,
        InstanceSpecificationTypeDef,
    )

# A volume takes about five snapshots at a time; others' backups count.
_OTHERS_FIRST = {"ConcurrentSnapshotLimitExceeded", "PendingSnapshotLimitExceeded"}
# Of EC2's largest pages. The call's bucket of requests is shared by all that runs in the account.
MOST_PAGES = 40
_PAGE = 500


class Ec2Storage:
    """Port Storage. What another environment of the account owns is not seen."""

    def __init__(
        self,
        ec2: EC2Client,
        ec2_single_try: EC2Client,
        environment: str,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._ec2 = ec2
        self._ec2_single_try = ec2_single_try
        self._seconds = seconds

    def volumes_of_instance(self, instance_id: str) -> list[Volume]:
        return self._volumes([{"Name": "attachment.instance-id", "Values": [instance_id]}])

    def volumes_of_run(self, run_id: str) -> list[Volume]:
        return [one for one in self._volumes(self._of_run(run_id)) if one.state != "deleted"]

    def volumes_of_environment(self, cluster: str | None = None) -> list[Volume]:
        mine = tag_filters(owned_by(self._environment, cluster))
        return [one for one in self._volumes(mine) if one.state != "deleted"]

    def volumes_of_type(self, volume_type: str) -> Sequence[Volume] | Unknown:
        pages = self._ec2.get_paginator("describe_volumes").paginate(
            Filters=[{"Name": "volume-type", "Values": [volume_type]}], PaginationConfig={"PageSize": _PAGE}
        )
        named = f"volumes of type {volume_type}"
        with translated("ec2:DescribeVolumes"):
            return read_in_time(pages, _standing, MOST_PAGES, named, self._seconds)

    def snapshots_of_run(self, run_id: str) -> list[Snapshot]:
        return self._snapshots(self._of_run(run_id))

    def snapshots_of_environment(self, cluster: str | None = None) -> list[Snapshot]:
        return self._snapshots(tag_filters(owned_by(self._environment, cluster)))

    def snapshots_of_volumes(self, volume_ids: Sequence[str]) -> list[Snapshot]:
        return self._snapshots([{"Name": "volume-id", "Values": list(volume_ids)}]) if volume_ids else []

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        others = {
            volume.volume_id
            for volume in self.volumes_of_instance(instance_id)
            if volume.volume_id not in set(volume_ids)
        }
        root = self._root_volume(instance_id)
        specification: InstanceSpecificationTypeDef = {
            "InstanceId": instance_id,
            "ExcludeBootVolume": root not in set(volume_ids),
        }
        # EC2 takes the root volume out with its own flag and refuses its id in the list of data volumes.
        unwanted = sorted(others - {root})
        if unwanted:
            specification["ExcludeDataVolumeIds"] = unwanted
        with translated("ec2:CreateSnapshots"):
            try:
                answer = self._ec2_single_try.create_snapshots(
                    InstanceSpecification=specification,
                    Description=f"Peaker {tags.get(RUN_TAG, '')}",
                    TagSpecifications=[{"ResourceType": "snapshot", "Tags": tag_list(tags)}],
                )
            except ClientError as error:
                if error_code(error) not in _OTHERS_FIRST:
                    raise
                raise SnapshotsPending(
                    f"ec2:CreateSnapshots: earlier ones must complete first: {error}"
                ) from error
        return [_snapshot(raw) for raw in answer["Snapshots"]]

    def name_snapshot(self, snapshot_id: str, volume_name: str) -> None:
        with translated("ec2:CreateTags"):
            self._ec2.create_tags(Resources=[snapshot_id], Tags=tag_list({VOLUME_TAG: volume_name}))

    def delete_snapshot(self, snapshot_id: str) -> None:
        with suppress(ResourceNotFound), translated("ec2:DeleteSnapshot"):
            self._ec2.delete_snapshot(SnapshotId=snapshot_id)

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        optional: dict[str, Any] = {}
        if spec.volume_type == "gp3":
            optional["Throughput"] = spec.throughput_mib_per_s
        if spec.initialization_rate_mib_per_s is not None:
            optional["VolumeInitializationRate"] = spec.initialization_rate_mib_per_s
        if spec.snapshot_id is not None:
            optional["SnapshotId"] = spec.snapshot_id
        elif spec.kms_key_id is not None:
            optional |= {"Encrypted": True, "KmsKeyId": spec.kms_key_id}
        with translated("ec2:CreateVolume"), _vanished_with_its_key(spec):
            answer = self._ec2.create_volume(
                AvailabilityZone=spec.zone,
                Size=spec.size_gib,
                VolumeType=spec.volume_type,  # type: ignore[arg-type]
                Iops=spec.iops,
                ClientToken=client_token,
                TagSpecifications=[{"ResourceType": "volume", "Tags": tag_list(spec.tags)}],
                **optional,
            )
        return _volume(answer)

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        with translated("ec2:AttachVolume"):
            try:
                self._ec2_single_try.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)
            except ClientError as error:
                code = error_code(error)
                if code not in {"VolumeInUse", "InvalidVolume.ZoneMismatch"}:
                    raise
                # An earlier call attached it: lists may not say so yet, and then name nobody.
                if code == "VolumeInUse" and self._holder(volume_id) in (None, instance_id):
                    return
                raise VolumeFailed(f"ec2:AttachVolume: {error}") from error

    def delete_volume(self, volume_id: str) -> None:
        with suppress(ResourceNotFound), translated("ec2:DeleteVolume"):
            try:
                self._ec2.delete_volume(VolumeId=volume_id)
            except ClientError as error:
                if error_code(error) != "VolumeInUse":
                    raise
                raise UndoInProgress(f"{volume_id} is still attached") from error

    def _holder(self, volume_id: str) -> str | None:
        # By filter, which knows no NotFound for what does not show yet.
        found = self._volumes([{"Name": "volume-id", "Values": [volume_id]}])
        return next((one.instance_id for one in found), None)

    def _root_volume(self, instance_id: str) -> str | None:
        instance = described_instance(self._ec2, instance_id)
        disks = instance.get("BlockDeviceMappings", [])
        roots = [one for one in disks if one.get("DeviceName") == instance.get("RootDeviceName")]
        return roots[0].get("Ebs", {}).get("VolumeId") if roots else None

    def _of_run(self, run_id: str) -> list[FilterTypeDef]:
        return tag_filters({RUN_TAG: run_id, OWNER_TAG: self._environment})

    def _snapshots(self, filters: Sequence[FilterTypeDef]) -> list[Snapshot]:
        pages = self._ec2.get_paginator("describe_snapshots").paginate(OwnerIds=["self"], Filters=filters)
        with translated("ec2:DescribeSnapshots"):
            return [_snapshot(raw) for page in pages for raw in page["Snapshots"]]

    def _volumes(self, filters: Sequence[FilterTypeDef]) -> list[Volume]:
        pages = self._ec2.get_paginator("describe_volumes").paginate(Filters=filters)
        with translated("ec2:DescribeVolumes"):
            return [_volume(raw) for page in pages for raw in page["Volumes"]]


def _standing(page: DescribeVolumesResultTypeDef) -> list[Volume]:
    """The page's volumes that are not being deleted."""
    found = [_volume(raw) for raw in page["Volumes"]]
    return [one for one in found if one.state not in ("deleting", "deleted")]


def _volume(raw: Any) -> Volume:
    attachments = [one for one in raw.get("Attachments") or [] if one.get("State") != "detached"]
    attachment = attachments[0] if attachments else {}
    return Volume(
        volume_id=raw["VolumeId"],
        state=raw["State"],
        size_gib=raw["Size"],
        volume_type=raw.get("VolumeType", ""),
        zone=raw["AvailabilityZone"],
        iops=raw.get("Iops"),
        throughput_mib_per_s=raw.get("Throughput"),
        instance_id=attachment.get("InstanceId"),
        device=attachment.get("Device"),
        attachment_state=attachment.get("State"),
        kms_key_id=raw.get("KmsKeyId"),
        initialization_rate_mib_per_s=raw.get("VolumeInitializationRate"),
        tags=tag_dict(raw.get("Tags")),
    )


def _snapshot(raw: Any) -> Snapshot:
    # The answer of CreateSnapshots is a SnapshotInfo, whose progress may be empty.
    progress = str(raw.get("Progress") or "").rstrip("%") or "0"
    return Snapshot(
        snapshot_id=raw["SnapshotId"],
        state=raw["State"],
        source_volume_id=raw["VolumeId"],
        progress_percent=float(progress),
        full_size_bytes=raw.get("FullSnapshotSizeInBytes"),
        started_at=raw.get("StartTime"),
        tags=tag_dict(raw.get("Tags")),
        kms_key_id=raw.get("KmsKeyId"),
    )


@contextmanager
def _vanished_with_its_key(spec: VolumeSpec) -> Iterator[None]:
    """Names the key where an earlier call of the same token made a volume that is gone since (aws-ebs-csi-driver#3010).

    EC2 says that the token is of another resource, which sounds like a defect of ours.
    """
    try:
        yield
    except ClientError as error:
        if error_code(error) != "IdempotentParameterMismatch" or "deleted" not in str(error):
            raise
        raise VolumeVanished(
            f"ec2:CreateVolume: a volume of {spec.snapshot_id} was made and is gone, as when EBS cannot use the KMS "
            f"key of its snapshot ({error})"
        ) from error
