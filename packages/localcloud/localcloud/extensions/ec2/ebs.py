"""EBS as AWS behaves, on the data plane's volumes: volumes, snapshots, attachments.

moto keeps the records (tags, filters); what moto leaves out is here: pending snapshots, volumes that are
creating and attaching, validation, ClientToken, attach errors. Root
volumes are records only: the host's root filesystem is not in the block store, so a snapshot is refused.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from moto.ec2.models.block_device import BlockDeviceType
from moto.ec2.utils import random_snapshot_id

from localcloud.dataplane import DataPlaneError
from localcloud.extensions.ec2.ebs_records import NO_SOURCE_VOLUME, EbsAttachment, EbsSnapshot, EbsVolume
from localcloud.extensions.ec2.images import AWS_KEY
from localcloud.extensions.ec2.state import Ec2State, ec2_error, ec2_state
from localcloud.extensions.ec2.volume_spec import volume_spec

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)
GIB = 1024**3
BLOCK_BYTES = 512 * 1024
CONCURRENT_SNAPSHOTS_PER_VOLUME = 5


# -- volumes -------------------------------------------------------------------------------------------------


def create_volume(state: Ec2State, request: Mapping[str, Any], zone_name: str) -> EbsVolume:
    """Make a volume in the data plane and in moto's records. Raises EC2 errors as CreateVolume does."""
    snapshot_id = request.get("SnapshotId")
    snapshot = restorable_snapshot(state, snapshot_id) if snapshot_id else None
    spec = volume_spec(request, snapshot.volume_size if snapshot else None)
    for refused in ("MultiAttachEnabled", "OutpostArn"):
        if request.get(refused):
            raise ec2_error("UnsupportedOperation", f"The local cloud has no volumes with {refused}.")
    volume = EbsVolume(state, zone_name, spec, snapshot_id)  # type: ignore[abstract]
    volume.kms_key_id = _key_of(request, snapshot)
    volume.encrypted = volume.kms_key_id is not None
    try:
        store = state.cloud.settings
        limits = replace(
            spec.limits(), fetch_parallel=store.fetch_parallel, fetch_latency_ms=store.fetch_latency_ms
        )
        state.dataplane.volumes.create_volume(volume.id, spec.size_gib * GIB, limits, snapshot_id)
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


def restorable_snapshot(state: Ec2State, snapshot_id: str) -> EbsSnapshot:
    snapshot = _snapshot(state, snapshot_id)
    if snapshot.status != "completed":
        raise ec2_error("IncorrectState", f"Snapshot is in invalid state - {snapshot.status}")
    return snapshot


def _snapshot(state: Ec2State, snapshot_id: str) -> EbsSnapshot:
    snapshot = state.backend.snapshots.get(snapshot_id)
    if not isinstance(snapshot, EbsSnapshot):
        raise ec2_error("InvalidSnapshot.NotFound", f"The snapshot '{snapshot_id}' does not exist.")
    return snapshot


# -- snapshots -----------------------------------------------------------------------------------------------


def create_snapshots(state: Ec2State, volumes: Sequence[EbsVolume], description: str) -> list[EbsSnapshot]:
    """Snapshot these volumes at one instant; all start pending, with the same start time."""
    for volume in volumes:
        check_snapshot_allowed(state, volume)
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
    volume_id: str = NO_SOURCE_VOLUME,
) -> None:
    """Make a snapshot that the data plane already holds known to EC2, completed; `volume_id` is what it was taken of.

    Raises DataPlaneError when the data plane does not hold it.
    """
    state = ec2_state(cloud)
    stored_bytes = _stored_bytes(state, snapshot_id)
    source = SimpleNamespace(id=volume_id, size=size_gib, encrypted=False)
    snapshot = EbsSnapshot(state, snapshot_id, source, description)
    snapshot._pending_seconds = 0.0
    snapshot.full_snapshot_size_in_bytes = stored_bytes
    with state.lock:
        state.backend.snapshots[snapshot_id] = snapshot
    snapshot.add_tags(dict(tags or {}))


def _stored_bytes(state: Ec2State, snapshot_id: str) -> int:
    return len(state.dataplane.volumes.snapshot_blocks(snapshot_id)) * BLOCK_BYTES


def check_snapshot_allowed(state: Ec2State, volume: EbsVolume) -> None:
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


ATTACHMENTS_PER_INSTANCE = 27  # 28 shared with network interfaces on r6i and r7g, less one interface
DEVICE_NAME = re.compile(r"(/dev/)?(sd|xvd)[a-z]{1,2}[0-9]{0,2}")


def check_attach_allowed(state: Ec2State, volume: EbsVolume, instance: Any, device: str | None) -> None:
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
