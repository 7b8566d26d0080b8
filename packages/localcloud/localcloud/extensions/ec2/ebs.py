"""EBS as AWS behaves, on the data plane's volumes: volumes, snapshots, attachments, the EBS direct APIs.

moto keeps the records (tags, filters); what moto leaves out is here: pending snapshots, volumes that are
creating and attaching, validation, ClientToken, attach errors, hydration in DescribeVolumeStatus. Root
volumes are records only: the host's root filesystem is not in the block store, so a snapshot is refused.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from flask import request as flask_request
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models.block_device import BlockDeviceType
from moto.ec2.models.elastic_block_store import Snapshot, Volume, VolumeAttachment
from moto.ec2.utils import generic_filter, random_snapshot_id, random_volume_id

from localcloud.dataplane import DataPlaneError
from localcloud.extensions.ec2.images import AWS_KEY
from localcloud.extensions.ec2.state import Ec2State, ec2_error, ec2_state
from localcloud.extensions.ec2.volume_spec import VolumeSpec, volume_spec
from localcloud.iam.gateway import REFUSED_LATER

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

MIB = 1024**2
GIB = 1024**3
BLOCK_BYTES = 512 * 1024
CONCURRENT_SNAPSHOTS_PER_VOLUME = 5
ATTACHMENTS_PER_INSTANCE = 27  # 28 shared with network interfaces on r6i and r7g, less one interface
BLOCK_TOKEN_LIFE = timedelta(days=7)
DEVICE_NAME = re.compile(r"(/dev/)?(sd|xvd)[a-z]{1,2}[0-9]{0,2}")
NO_SOURCE_VOLUME = "vol-ffffffff"  # as AWS shows for a copied snapshot


class EbsVolume(Volume):
    """A volume with the states that moto's lacks. `in_store` is False for a root volume."""

    attachment: EbsAttachment | None

    def __init__(self, state: Ec2State, zone_name: str, spec: VolumeSpec, snapshot_id: str | None) -> None:
        super().__init__(
            state.backend,
            random_volume_id(),
            spec.size_gib,
            state.backend.get_zone_by_name(zone_name),
            snapshot_id,
            volume_type=spec.volume_type,
            iops=spec.iops,
            throughput=spec.throughput_mib_per_s,
        )
        self.spec = spec
        self.kms_key_id: str | None = None
        self.in_store = True
        self.volume_initialization_rate = spec.initialization_rate_mib_per_s
        self.create_time = state.cloud.clock.now()
        self.ready_at = time.monotonic() + state.transition_seconds

    @property
    def status(self) -> str:
        if self.attachment is not None:
            return "in-use"
        return "available" if time.monotonic() >= self.ready_at else "creating"


class EbsAttachment(VolumeAttachment):
    """attaching until the data plane has plugged it and a short while after; busy when a detach failed."""

    volume: EbsVolume

    def __init__(self, volume: EbsVolume, instance: Any, device: str, attach_time: datetime) -> None:
        super().__init__(volume, instance, device, "attaching")
        self.attach_time = attach_time
        self.settled_at = math.inf

    @property
    def delete_on_termination(self) -> bool:
        mapping = self.instance.block_device_mapping.get(self.device)
        return bool(mapping is not None and mapping.delete_on_termination)


class EbsSnapshot(Snapshot):
    """A snapshot that is pending for a while, and until what it copies is copied."""

    def __init__(self, state: Ec2State, snapshot_id: str, volume: Any, description: str) -> None:
        super().__init__(state.backend, snapshot_id, volume, description)
        self.start_time = state.cloud.clock.now()
        self.kms_key_id: str | None = getattr(volume, "kms_key_id", None)
        self.full_snapshot_size_in_bytes: int | None = None
        self.completion_time: datetime | None = None
        self._clock = state.cloud.clock
        self._started_at = time.monotonic()
        self._pending_seconds = state.cloud.settings.snapshot_seconds
        self._started_epoch = self._clock.epoch()
        self._copy_seconds = 0.0  # of the cloud's

    def copies(self, stored_bytes: int, rate_mib_per_s: float) -> None:
        """It is pending until so many bytes are copied."""
        self._copy_seconds = stored_bytes / (rate_mib_per_s * MIB) if rate_mib_per_s > 0 else 0.0

    @property
    def _done(self) -> float:
        waited = time.monotonic() - self._started_at
        copied = self._clock.epoch() - self._started_epoch
        shares = [(waited, self._pending_seconds), (copied, self._copy_seconds)]
        return min(min(1.0, passed / whole) if whole > 0 else 1.0 for passed, whole in shares)

    @property
    def status(self) -> str:
        if self.completion_time is None and self._done < 1.0:
            return "pending"
        if self.completion_time is None:
            self.completion_time = self._clock.now()
        return "completed"

    @status.setter
    def status(self, value: str) -> None:
        """moto's constructor sets one; ours follows the time."""

    @property
    def progress(self) -> str:
        if self.status == "completed":
            return "100%"
        return f"{int(100 * self._done)}%"


# -- volumes -------------------------------------------------------------------------------------------------


def create_volume(state: Ec2State, request: Mapping[str, Any], zone_name: str) -> EbsVolume:
    """Make a volume in the data plane and in moto's records. Raises EC2 errors as CreateVolume does."""
    snapshot_id = request.get("SnapshotId")
    snapshot = _restorable(state, snapshot_id) if snapshot_id else None
    spec = volume_spec(request, snapshot.volume_size if snapshot else None)
    for refused in ("MultiAttachEnabled", "OutpostArn"):
        if request.get(refused):
            raise ec2_error("UnsupportedOperation", f"The local cloud has no volumes with {refused}.")
    volume = EbsVolume(state, zone_name, spec, snapshot_id)  # type: ignore[abstract]
    volume.kms_key_id = _key_of(request, snapshot)
    volume.encrypted = volume.kms_key_id is not None
    try:
        state.dataplane.volumes.create_volume(volume.id, spec.size_gib * GIB, spec.limits(), snapshot_id)
    except DataPlaneError as error:
        raise ec2_error("InternalError", str(error)) from error
    with state.lock:
        state.backend.volumes[volume.id] = volume
        state.created(volume.id)
    return volume


def _key_of(request: Mapping[str, Any], snapshot: EbsSnapshot | None) -> str | None:
    """Its own key, else its snapshot's; a volume that is to be encrypted without one is under AWS's."""
    inherited = snapshot.kms_key_id if snapshot is not None else None
    named = request.get("KmsKeyId") or inherited
    return str(named) if named else AWS_KEY if request.get("Encrypted") else None


def vanish(state: Ec2State, volume: EbsVolume, why: str) -> None:
    """EBS cannot use the volume's key: it goes away after the call was answered, and nobody is told."""

    def after_a_moment() -> None:
        time.sleep(state.transition_seconds)
        log.warning("%s vanishes: %s", volume.id, why)
        delete_volume(state, volume)

    state.cloud.background(f"vanish-{volume.id}", after_a_moment)


def create_root_volume(
    state: Ec2State, request: Mapping[str, Any], zone_name: str, image_gib: int
) -> EbsVolume:
    """The record of a root volume; the host's root filesystem is the data plane's own business."""
    spec = volume_spec({"Size": image_gib, **request}, None)
    volume = EbsVolume(state, zone_name, spec, None)  # type: ignore[abstract]
    volume.in_store = False
    volume.kms_key_id = _key_of(request, None)
    volume.encrypted = volume.kms_key_id is not None
    with state.lock:
        state.backend.volumes[volume.id] = volume
        state.created(volume.id)
    return volume


def delete_volume(state: Ec2State, volume: EbsVolume) -> None:
    """Forget a volume that is not attached, record and content."""
    with state.lock:
        state.backend.volumes.pop(volume.id, None)
    if volume.in_store:
        state.dataplane.volumes.delete_volume(volume.id)


def attach(
    state: Ec2State, volume: EbsVolume, instance: Any, device: str, delete_on_termination: bool
) -> EbsAttachment:
    """Record an attachment, in state attaching; `plug` makes it real."""
    now = state.cloud.clock.now()
    attachment = EbsAttachment(volume, instance, device, now)  # type: ignore[abstract]
    with state.lock:
        volume.attachment = attachment
        instance.block_device_mapping[device] = BlockDeviceType(
            volume_id=volume.id,
            status="attaching",
            size=volume.size,
            attach_time=attachment.attach_time,
            delete_on_termination=delete_on_termination,
        )
    return attachment


def plug(state: Ec2State, attachment: EbsAttachment) -> None:
    """Show an attached volume in its host, which may be stopped. Raises DataPlaneError."""
    volume = attachment.volume
    if volume.in_store:
        device = state.dataplane.volumes.attach(volume.id)
        state.dataplane.hosts.plug(attachment.instance.id, attachment.device, volume.id, device)
    attachment.settled_at = time.monotonic() + state.transition_seconds


def unplug(state: Ec2State, attachment: EbsAttachment) -> None:
    """Take a volume away from its host. Raises DataPlaneError when the device is held (a mounted volume)."""
    volume = attachment.volume
    if volume.in_store:
        state.dataplane.hosts.unplug(attachment.instance.id, volume.id)
        state.dataplane.volumes.detach(volume.id)


def release(state: Ec2State, attachment: EbsAttachment, delete: bool) -> None:
    """Let go of a volume whose host is gone; delete it, or make it available. Raises DataPlaneError."""
    if attachment.volume.in_store:
        state.dataplane.volumes.detach(attachment.volume.id)
    forget_attachment(state, attachment)
    if delete:
        delete_volume(state, attachment.volume)


def forget_attachment(state: Ec2State, attachment: EbsAttachment) -> None:
    """The volume is available again."""
    with state.lock:
        attachment.instance.block_device_mapping.pop(attachment.device, None)
        if attachment.volume.attachment is attachment:
            attachment.volume.attachment = None


def attachments_of(state: Ec2State, instance: Any) -> list[EbsAttachment]:
    """What is attached to an instance, root volume included, in attach order."""
    with state.lock:
        return [
            volume.attachment
            for volume in list(state.backend.volumes.values())
            if isinstance(volume, EbsVolume) and volume.attachment and volume.attachment.instance is instance
        ]


def settle(state: Ec2State) -> None:
    """Let attachments that have waited long enough become attached, or go away when detaching."""
    now = time.monotonic()
    with state.lock:
        for volume in list(state.backend.volumes.values()):
            attachment = volume.attachment
            if not isinstance(attachment, EbsAttachment) or now < attachment.settled_at:
                continue
            if attachment.status == "attaching":
                attachment.status = "attached"
                attachment.instance.block_device_mapping[attachment.device].status = "attached"
            elif attachment.status == "detaching":
                forget_attachment(state, attachment)


def _restorable(state: Ec2State, snapshot_id: str) -> EbsSnapshot:
    snapshot = _snapshot(state, snapshot_id)
    if snapshot.status != "completed":
        raise ec2_error("IncorrectState", f"Snapshot is in invalid state - {snapshot.status}")
    return snapshot


def _snapshot(state: Ec2State, snapshot_id: str) -> EbsSnapshot:
    snapshot = state.backend.snapshots.get(snapshot_id)
    if not isinstance(snapshot, EbsSnapshot):
        raise ec2_error("InvalidSnapshot.NotFound", f"The snapshot '{snapshot_id}' does not exist.")
    return snapshot


def _volume(state: Ec2State, volume_id: str) -> EbsVolume:
    volume = state.backend.volumes.get(volume_id)
    if not isinstance(volume, EbsVolume):
        raise ec2_error("InvalidVolume.NotFound", f"The volume '{volume_id}' does not exist.")
    return volume


def _instance(state: Ec2State, instance_id: str) -> Any:
    instance = state.backend.get_instance_by_id(instance_id)
    if instance is None or instance.state == "terminated":
        raise ec2_error("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
    return instance


# -- snapshots -----------------------------------------------------------------------------------------------


def create_snapshots(state: Ec2State, volumes: Sequence[EbsVolume], description: str) -> list[EbsSnapshot]:
    """Snapshot these volumes at one instant; all start pending, with the same start time."""
    for volume in volumes:
        _check_snapshot_allowed(state, volume)
    earlier = {volume.id: _newest_of_lineage(state, volume) for volume in volumes}
    snapshots = [EbsSnapshot(state, random_snapshot_id(), volume, description) for volume in volumes]
    ids = {snapshot.volume_id: snapshot.id for snapshot in snapshots}
    try:
        state.dataplane.volumes.create_snapshots(ids)
    except DataPlaneError as error:
        raise ec2_error("InternalError", str(error)) from error
    with state.lock:
        for snapshot in snapshots:
            snapshot.start_time = snapshots[0].start_time
            snapshot.full_snapshot_size_in_bytes = _stored_bytes(state, snapshot.id)
            copied = _copied_bytes(state, snapshot, earlier[snapshot.volume_id])
            snapshot.copies(copied, state.cloud.settings.snapshot_mib_per_s)
            state.backend.snapshots[snapshot.id] = snapshot
            state.created(snapshot.id)
    return snapshots


def _newest_of_lineage(state: Ec2State, volume: EbsVolume) -> str | None:
    """The completed snapshot that the next one of the volume is incremental to, if one still exists.

    That is the volume's newest, or the one that it was made from (EBS User Guide, "Write Amazon EBS snapshots").
    """
    known = [one for one in list(state.backend.snapshots.values()) if isinstance(one, EbsSnapshot)]
    mine = [one for one in known if one.volume_id == volume.id and one.status == "completed"]
    if mine:
        return str(max(mine, key=lambda one: one.start_time).id)
    return next((str(one.id) for one in known if one.id == volume.snapshot_id), None)


def _copied_bytes(state: Ec2State, snapshot: EbsSnapshot, earlier_id: str | None) -> int:
    """All that it stores for the first of a lineage, what was written since for a later one."""
    stored = snapshot.full_snapshot_size_in_bytes or 0
    if earlier_id is None:
        return stored
    return len(state.dataplane.volumes.changed_blocks(earlier_id, snapshot.id)) * BLOCK_BYTES


def register_snapshot(
    cloud: OpenCloud,
    snapshot_id: str,
    size_gib: int,
    description: str = "",
    tags: Mapping[str, str] | None = None,
) -> None:
    """Make a snapshot that the data plane already holds known to EC2, completed.

    Raises DataPlaneError when the data plane does not hold it.
    """
    state = ec2_state(cloud)
    stored_bytes = _stored_bytes(state, snapshot_id)
    source = SimpleNamespace(id=NO_SOURCE_VOLUME, size=size_gib, encrypted=False)
    snapshot = EbsSnapshot(state, snapshot_id, source, description)
    snapshot._pending_seconds = 0.0
    snapshot.full_snapshot_size_in_bytes = stored_bytes
    with state.lock:
        state.backend.snapshots[snapshot_id] = snapshot
    snapshot.add_tags(dict(tags or {}))


def _stored_bytes(state: Ec2State, snapshot_id: str) -> int:
    return len(state.dataplane.volumes.snapshot_blocks(snapshot_id)) * BLOCK_BYTES


def _check_snapshot_allowed(state: Ec2State, volume: EbsVolume) -> None:
    if not volume.in_store:
        raise ec2_error(
            "UnsupportedOperation",
            f"{volume.id} is a root volume, which the local cloud does not snapshot: set ExcludeBootVolume.",
        )
    if volume.status == "creating":
        raise ec2_error("IncorrectState", f"The volume '{volume.id}' is in the 'creating' state.")
    pending = [
        snapshot
        for snapshot in list(state.backend.snapshots.values())
        if isinstance(snapshot, EbsSnapshot) and snapshot.volume is volume and snapshot.status == "pending"
    ]
    if len(pending) >= CONCURRENT_SNAPSHOTS_PER_VOLUME:
        raise ec2_error(
            "ConcurrentSnapshotLimitExceeded",
            "Maximum allowed in-progress snapshots for a single volume exceeded.",
        )


# -- API actions ---------------------------------------------------------------------------------------------


class EbsActions:
    """The EC2 API's volume and snapshot actions."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state

    def create_volume(self, response: Any) -> ActionResult:
        request = response.params
        zone_name = _zone_name(self.state, request)
        tags = response._parse_tag_specification().get("volume", {})
        if request.get("DryRun"):  # every check, no effect
            snapshot_id = request.get("SnapshotId")
            snapshot = _restorable(self.state, snapshot_id) if snapshot_id else None
            volume_spec(request, snapshot.volume_size if snapshot else None)
        response.error_on_dryrun()

        def act() -> EbsVolume:
            volume = create_volume(self.state, request, zone_name)
            volume.add_tags(tags)
            if refused := flask_request.environ.get(REFUSED_LATER):
                vanish(self.state, volume, refused[0])
            return volume

        volume: EbsVolume = self.state.once("CreateVolume", request, request.get("ClientToken"), act)
        if volume.id not in self.state.backend.volumes:
            raise ec2_error(
                "IdempotentParameterMismatch",
                "The client token you have provided is associated with a resource that is already deleted. "
                "Please use a different client token.",
            )
        return ActionResult(self._describe_volume(volume))

    def delete_volume(self, response: Any) -> EmptyResult:
        volume = _volume(self.state, response._get_param("VolumeId"))
        settle(self.state)
        if volume.attachment is not None:
            raise ec2_error(
                "VolumeInUse", f"Volume {volume.id} is currently attached to {volume.attachment.instance.id}"
            )
        if volume.status == "creating":
            raise ec2_error("IncorrectState", f"The volume '{volume.id}' is 'creating'")
        response.error_on_dryrun()
        delete_volume(self.state, volume)
        return EmptyResult()

    def attach_volume(self, response: Any) -> ActionResult:
        state = self.state
        settle(state)
        device = response._get_param("Device")
        with state.lock:
            volume = _volume(state, response._get_param("VolumeId"))
            instance = _instance(state, response._get_param("InstanceId"))
            _check_attach_allowed(state, volume, instance, device)
            response.error_on_dryrun()
            attachment = attach(state, volume, instance, device, delete_on_termination=False)
        try:
            with state.machine_lock(instance.id):
                plug(state, attachment)
        except DataPlaneError as error:
            forget_attachment(state, attachment)
            raise ec2_error("InternalError", str(error)) from error
        return ActionResult(_describe_attachment(attachment))

    def detach_volume(self, response: Any) -> ActionResult:
        state = self.state
        settle(state)
        volume = _volume(state, response._get_param("VolumeId"))
        attachment = volume.attachment
        if attachment is None:
            raise ec2_error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.status}' state.")
        wanted = {"InstanceId": attachment.instance.id, "Device": attachment.device}
        if any(response._get_param(key) not in (None, value) for key, value in wanted.items()):
            raise ec2_error(
                "InvalidAttachment.NotFound",
                f"The volume '{volume.id}' is not attached to instance '{response._get_param('InstanceId')}' "
                f"as device '{response._get_param('Device')}'.",
            )
        if not volume.in_store and attachment.instance.state != "stopped":
            raise ec2_error(
                "OperationNotPermitted",
                f"Unable to detach root volume '{volume.id}' from instance '{attachment.instance.id}'",
            )
        response.error_on_dryrun()
        if attachment.status != "detaching":
            self._detach(attachment)
        return ActionResult(_describe_attachment(attachment))

    def _detach(self, attachment: EbsAttachment) -> None:
        try:
            with self.state.machine_lock(attachment.instance.id):
                unplug(self.state, attachment)
        except DataPlaneError:
            attachment.status = "busy"  # mounted in the host, as on AWS; the caller may try again
            return
        attachment.status = "detaching"
        attachment.settled_at = time.monotonic() + self.state.transition_seconds

    def create_snapshot(self, response: Any) -> ActionResult:
        volume = _volume(self.state, response._get_param("VolumeId"))
        tags = response._parse_tag_specification().get("snapshot", {})
        if response._get_param("DryRun"):
            _check_snapshot_allowed(self.state, volume)
        response.error_on_dryrun()
        snapshot = create_snapshots(self.state, [volume], response._get_param("Description", ""))[0]
        snapshot.add_tags(tags)
        return ActionResult(_describe_snapshot(snapshot))

    def create_snapshots(self, response: Any) -> ActionResult:
        tags = response._parse_tag_specification().get("snapshot", {})
        settle(self.state)
        volumes = self._instance_volumes(response._get_param("InstanceSpecification", {}))
        for volume in volumes:
            _check_snapshot_allowed(self.state, volume)
        response.error_on_dryrun()
        snapshots = create_snapshots(self.state, volumes, response._get_param("Description", ""))
        for snapshot in snapshots:
            if response._get_param("CopyTagsFromSource") == "volume":
                snapshot.add_tags({tag["key"]: tag["value"] for tag in snapshot.volume.get_tags()})
            snapshot.add_tags(tags)
        return ActionResult({"Snapshots": [_describe_snapshot(snapshot) for snapshot in snapshots]})

    def _instance_volumes(self, specification: Mapping[str, Any]) -> list[EbsVolume]:
        instance = _instance(self.state, specification["InstanceId"])
        attached = {attachment.volume.id: attachment for attachment in attachments_of(self.state, instance)}
        excluded = set(specification.get("ExcludeDataVolumeIds", []))
        data = {volume_id for volume_id, a in attached.items() if a.device != instance.root_device_name}
        unknown = sorted(excluded - data)
        if unknown:
            raise ec2_error(
                "InvalidParameterValue", f"{unknown[0]} is not a data volume of instance {instance.id}"
            )
        volumes = [
            attachment.volume
            for volume_id, attachment in attached.items()
            if volume_id not in excluded
            and not (
                specification.get("ExcludeBootVolume") and attachment.device == instance.root_device_name
            )
        ]
        if not volumes:
            raise ec2_error("InvalidParameterValue", f"Instance {instance.id} has no volumes to snapshot")
        return volumes

    def delete_snapshot(self, response: Any) -> EmptyResult:
        snapshot_id = response._get_param("SnapshotId")
        if not isinstance(self.state.backend.snapshots.get(snapshot_id), EbsSnapshot):
            response.error_on_dryrun()
            self.state.backend.delete_snapshot(snapshot_id)  # an AMI's: moto knows whether it is in use
            return EmptyResult()
        response.error_on_dryrun()
        with self.state.lock:
            self.state.backend.snapshots.pop(snapshot_id, None)
        self.state.dataplane.volumes.delete_snapshot(snapshot_id)
        return EmptyResult()

    def describe_volumes(self, response: Any) -> ActionResult:
        volumes = self._chosen_volumes(response)
        page, token = _page(response, volumes)
        return ActionResult({"Volumes": [self._describe_volume(v) for v in page], "NextToken": token})

    def describe_volume_status(self, response: Any) -> ActionResult:
        volumes = self._chosen_volumes(response)
        page, token = _page(response, volumes)
        return ActionResult(
            {"VolumeStatuses": [self._describe_volume_status(v) for v in page], "NextToken": token}
        )

    def describe_snapshots(self, response: Any) -> ActionResult:
        ids = response._get_param("SnapshotIds", [])
        snapshots = self._visible(
            ids, self.state.backend.snapshots, "InvalidSnapshot.NotFound", "The snapshot '{}' does not exist."
        )
        owners = response._get_param("OwnerIds", [])
        if owners and not {"self", self.state.cloud.settings.account_id} & set(owners):
            snapshots = []
        chosen = generic_filter(response._filters_from_querystring(), snapshots)
        page, token = _page(response, chosen)
        return ActionResult({"Snapshots": [_describe_snapshot(s) for s in page], "NextToken": token})

    def refuse(self, response: Any) -> ActionResult:
        """For actions that moto would answer from its records alone, while the volume stayed as it was."""
        raise ec2_error("UnsupportedOperation", f"The local cloud has no {response._get_action()}.")

    def _chosen_volumes(self, response: Any) -> list[Any]:
        settle(self.state)
        volumes = self._visible(
            response._get_param("VolumeIds", []),
            self.state.backend.volumes,
            "InvalidVolume.NotFound",
            "The volume '{}' does not exist.",
        )
        return list(generic_filter(response._filters_from_querystring(), volumes))

    def _visible(
        self, ids: Sequence[str], resources: Mapping[str, Any], code: str, message: str
    ) -> list[Any]:
        with self.state.lock:
            for resource_id in ids:
                if resource_id not in resources or not self.state.visible(resource_id):
                    raise ec2_error(code, message.format(resource_id))
            return [
                resource
                for resource_id, resource in resources.items()
                if (not ids or resource_id in ids) and self.state.visible(resource_id)
            ]

    def _describe_volume(self, volume: Any) -> dict[str, Any]:
        attachments = [_describe_attachment(a) for a in volume.attachments]
        return {
            "VolumeId": volume.id,
            "Size": volume.size,
            "SnapshotId": volume.snapshot_id or "",
            "AvailabilityZone": volume.availability_zone,
            "State": volume.status,
            "CreateTime": volume.create_time,
            "Attachments": attachments,
            "Tags": volume.get_tags(),
            "VolumeType": volume.volume_type,
            "Iops": volume.iops,
            "Throughput": volume.throughput,
            "VolumeInitializationRate": getattr(volume, "volume_initialization_rate", None),
            "Encrypted": volume.encrypted,
            "KmsKeyId": getattr(volume, "kms_key_id", None),
            "MultiAttachEnabled": False,
        }

    def _describe_volume_status(self, volume: Any) -> dict[str, Any]:
        details = [
            {"Name": "io-enabled", "Status": "passed"},
            {"Name": "io-performance", "Status": "not-applicable"},
        ]
        status: dict[str, Any] = {
            "VolumeId": volume.id,
            "AvailabilityZone": volume.availability_zone,
            "VolumeStatus": {"Status": "ok", "Details": details},
        }
        if isinstance(volume, EbsVolume) and volume.in_store and volume.snapshot_id:
            initialization = self._initialization(volume)
            done = initialization["Progress"] >= 100
            details.append(
                {"Name": "initialization-state", "Status": "completed" if done else "initializing"}
            )
            status["InitializationStatusDetails"] = initialization
        return status

    def _initialization(self, volume: EbsVolume) -> dict[str, Any]:
        stat = self.state.dataplane.volumes.stat(volume.id)
        warm = stat.blocks_in_snapshot - stat.blocks_cold
        share = warm / stat.blocks_in_snapshot if stat.blocks_in_snapshot else 1.0
        details: dict[str, Any] = {"InitializationType": "default", "Progress": int(100 * share)}
        rate = volume.volume_initialization_rate
        if rate is not None:
            remaining_mib = stat.blocks_cold * BLOCK_BYTES / 1024**2
            details["InitializationType"] = "provisioned-rate"
            details["EstimatedTimeToCompleteInSeconds"] = math.ceil(remaining_mib / rate)
        return details


def _check_attach_allowed(state: Ec2State, volume: EbsVolume, instance: Any, device: str | None) -> None:
    if not device or not DEVICE_NAME.fullmatch(device):
        raise ec2_error(
            "InvalidParameterValue",
            f"Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name.",
        )
    if volume.attachment is not None:
        raise ec2_error("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.status != "available":
        raise ec2_error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.status}' state.")
    if instance.state not in ("running", "stopped"):
        raise ec2_error("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
    if volume.availability_zone != instance.availability_zone:
        raise ec2_error(
            "InvalidVolume.ZoneMismatch",
            f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'",
        )
    if device in instance.block_device_mapping:
        raise ec2_error(
            "InvalidParameterValue",
            f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use",
        )
    if len(attachments_of(state, instance)) >= ATTACHMENTS_PER_INSTANCE:
        raise ec2_error("AttachmentLimitExceeded", f"Instance '{instance.id}' has no attachment left.")


def _zone_name(state: Ec2State, request: Mapping[str, Any]) -> str:
    name, zone_id = request.get("AvailabilityZone"), request.get("AvailabilityZoneId")
    if not name and not zone_id:
        raise ec2_error("MissingParameter", "The request must contain the parameter AvailabilityZone")
    for zone in state.backend.describe_availability_zones():
        if zone.name == name or (not name and zone.zone_id == zone_id):
            return str(zone.name)
    raise ec2_error("InvalidZone.NotFound", f"The zone '{name or zone_id}' does not exist.")


def _page(response: Any, items: Sequence[Any]) -> tuple[Sequence[Any], str | None]:
    size = response._get_param("MaxResults")
    start = int(response._get_param("NextToken") or 0)
    end = start + int(size) if size else len(items)
    return items[start:end], str(end) if end < len(items) else None


def _describe_attachment(attachment: Any) -> dict[str, Any]:
    return {
        "VolumeId": attachment.volume.id,
        "InstanceId": attachment.instance.id,
        "Device": attachment.device,
        "State": attachment.status,
        "AttachTime": attachment.attach_time,
        "DeleteOnTermination": getattr(attachment, "delete_on_termination", False),
    }


def _describe_snapshot(snapshot: Any) -> dict[str, Any]:
    return {
        "SnapshotId": snapshot.id,
        "VolumeId": snapshot.volume_id,
        "VolumeSize": snapshot.volume_size,
        "Description": snapshot.description or "",
        "State": snapshot.status,
        "Progress": snapshot.progress,
        "StartTime": snapshot.start_time,
        "CompletionTime": getattr(snapshot, "completion_time", None),
        "FullSnapshotSizeInBytes": getattr(snapshot, "full_snapshot_size_in_bytes", None),
        "OwnerId": snapshot.owner_id,
        "Encrypted": snapshot.encrypted,
        "KmsKeyId": getattr(snapshot, "kms_key_id", None),
        "StorageTier": "standard",
        "Tags": snapshot.get_tags(),
    }


# -- EBS direct APIs -----------------------------------------------------------------------------------------


class DirectActions:
    """ebs:ListSnapshotBlocks, ListChangedBlocks and GetSnapshotBlock over EC2's snapshots."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state
        self._changed: dict[tuple[str, str], Sequence[int]] = {}

    def list_snapshot_blocks(self, response: Any) -> ActionResult:
        snapshot = self._snapshot(response._get_param("SnapshotId"))
        indices, token = self._page(response, self._indices(snapshot))
        blocks = [{"BlockIndex": index, "BlockToken": _block_token(snapshot.id, index)} for index in indices]
        return ActionResult({"Blocks": blocks, "NextToken": token, **self._about(snapshot)})

    def list_changed_blocks(self, response: Any) -> ActionResult:
        first = self._snapshot(response._get_param("FirstSnapshotId"))
        second = self._snapshot(response._get_param("SecondSnapshotId"))
        if first.volume_id != second.volume_id:
            raise DirectError(
                "ValidationException", "UNRELATED_SNAPSHOTS", "The snapshots are not of the same volume."
            )
        before, after = set(self._indices(first)), set(self._indices(second))
        changed = self._changed.get((first.id, second.id))
        if changed is None:
            changed = self.state.dataplane.volumes.changed_blocks(first.id, second.id)
            self._changed[first.id, second.id] = changed
        indices, token = self._page(response, changed)
        blocks = [
            {
                "BlockIndex": index,
                "FirstBlockToken": _block_token(first.id, index) if index in before else None,
                "SecondBlockToken": _block_token(second.id, index) if index in after else None,
            }
            for index in indices
        ]
        return ActionResult({"ChangedBlocks": blocks, "NextToken": token, **self._about(second)})

    def get_snapshot_block(self, response: Any) -> ActionResult:
        snapshot = self._snapshot(response._get_param("SnapshotId"))
        index = int(response._get_param("BlockIndex"))
        if response._get_param("BlockToken") != _block_token(snapshot.id, index):
            raise DirectError("ValidationException", "INVALID_BLOCK_TOKEN", "The block token is not valid.")
        try:
            content = self.state.dataplane.volumes.read_snapshot_block(snapshot.id, index)
        except DataPlaneError as error:
            raise DirectError("ResourceNotFoundException", "SNAPSHOT_BLOCK_NOT_FOUND", str(error)) from error
        return ActionResult(
            {
                "DataLength": len(content),
                "BlockData": content,
                "Checksum": base64.b64encode(hashlib.sha256(content).digest()).decode(),
                "ChecksumAlgorithm": "SHA256",
            }
        )

    def _snapshot(self, snapshot_id: str) -> EbsSnapshot:
        snapshot = self.state.backend.snapshots.get(snapshot_id)
        if not isinstance(snapshot, EbsSnapshot):
            raise DirectError(
                "ResourceNotFoundException",
                "SNAPSHOT_NOT_FOUND",
                f"The snapshot {snapshot_id} does not exist.",
            )
        if snapshot.status != "completed":
            raise DirectError(
                "ValidationException", "INVALID_SNAPSHOT_ID", f"The snapshot {snapshot_id} is pending."
            )
        return snapshot

    def _indices(self, snapshot: EbsSnapshot) -> Sequence[int]:
        return self.state.dataplane.volumes.snapshot_blocks(snapshot.id)

    def _page(self, response: Any, indices: Iterable[int]) -> tuple[list[int], str | None]:
        size = int(response._get_param("MaxResults") or 10_000)
        if not 100 <= size <= 10_000:
            raise DirectError(
                "ValidationException", "INVALID_PARAMETER_VALUE", "MaxResults must be between 100 and 10000."
            )
        start = int(response._get_param("NextToken") or response._get_param("StartingBlockIndex") or 0)
        rest = [index for index in indices if index >= start]
        return rest[:size], str(rest[size]) if len(rest) > size else None

    def _about(self, snapshot: EbsSnapshot) -> dict[str, Any]:
        return {
            "ExpiryTime": self.state.cloud.clock.now() + BLOCK_TOKEN_LIFE,
            "VolumeSize": snapshot.volume_size,
            "BlockSize": BLOCK_BYTES,
        }


def _block_token(snapshot_id: str, index: int) -> str:
    return base64.b64encode(hashlib.sha256(f"{snapshot_id}/{index}".encode()).digest()).decode()


class DirectError(ServiceException):
    """An error of the EBS direct APIs, which has a reason besides its code."""

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(code, message)
        self.Reason = reason


def install(cloud: OpenCloud) -> None:
    """Answer EBS's actions from the data plane. Without a data plane moto's own records stay in charge."""
    from moto.ebs.responses import EBSResponse
    from moto.ec2.responses.elastic_block_store import ElasticBlockStore

    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)
    actions, direct = EbsActions(state), DirectActions(state)
    for name in (
        "create_volume",
        "delete_volume",
        "attach_volume",
        "detach_volume",
        "create_snapshot",
        "create_snapshots",
        "delete_snapshot",
        "describe_volumes",
        "describe_volume_status",
        "describe_snapshots",
    ):
        state.replace_action(ElasticBlockStore, name, getattr(actions, name))
    for name in ("modify_volume", "copy_snapshot", "modify_snapshot_tier", "restore_snapshot_tier"):
        state.replace_action(ElasticBlockStore, name, actions.refuse)
    for name in ("list_snapshot_blocks", "list_changed_blocks", "get_snapshot_block"):
        state.replace_action(EBSResponse, name, getattr(direct, name))
    for name in ("start_snapshot", "put_snapshot_block", "complete_snapshot"):
        state.replace_action(EBSResponse, name, actions.refuse)
