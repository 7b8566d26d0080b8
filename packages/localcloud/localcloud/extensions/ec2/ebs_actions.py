"""EBS in EC2's API: the actions on volumes, attachments and snapshots."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flask import request as flask_request
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.utils import generic_filter

from localcloud.dataplane import DataPlaneError
from localcloud.extensions.ec2.account_limits import check_storage
from localcloud.extensions.ec2.direct_apis import DirectActions
from localcloud.extensions.ec2.ebs import (
    attach,
    attachments_of,
    check_attach_allowed,
    check_snapshot_allowed,
    create_snapshots,
    create_volume,
    delete_volume,
    forget_attachment,
    plug,
    restorable_snapshot,
    settle,
    unplug,
    vanish,
)
from localcloud.extensions.ec2.ebs_records import EbsAttachment, EbsSnapshot, EbsVolume
from localcloud.extensions.ec2.state import Ec2State, ec2_error, ec2_state, page
from localcloud.extensions.ec2.volume_spec import VolumeSpec, volume_spec
from localcloud.iam.gateway import REFUSED_LATER

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


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


class EbsActions:
    """The EC2 API's volume and snapshot actions."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state

    def create_volume(self, response: Any) -> ActionResult:
        request = response.params
        zone_name = self.state.zone_of(request)
        tags = response._parse_tag_specification().get("volume", {})
        if request.get("DryRun"):  # every check, no effect
            check_storage(self.state, self._spec(request))
        response.error_on_dryrun()

        def act() -> EbsVolume:
            check_storage(self.state, self._spec(request))
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

    def _spec(self, request: Mapping[str, Any]) -> VolumeSpec:
        snapshot_id = request.get("SnapshotId")
        snapshot = restorable_snapshot(self.state, snapshot_id) if snapshot_id else None
        return volume_spec(request, snapshot.volume_size if snapshot else None)

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
            check_attach_allowed(state, volume, instance, device)
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
            check_snapshot_allowed(self.state, volume)
        response.error_on_dryrun()
        snapshot = create_snapshots(self.state, [volume], response._get_param("Description", ""))[0]
        snapshot.add_tags(tags)
        return ActionResult(_describe_snapshot(snapshot))

    def create_snapshots(self, response: Any) -> ActionResult:
        tags = response._parse_tag_specification().get("snapshot", {})
        settle(self.state)
        volumes = self._instance_volumes(response._get_param("InstanceSpecification", {}))
        for volume in volumes:
            check_snapshot_allowed(self.state, volume)
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
        settle(self.state)
        volumes = self._visible(
            response._get_param("VolumeIds", []),
            self.state.backend.volumes,
            "InvalidVolume.NotFound",
            "The volume '{}' does not exist.",
        )
        shown, token = page(response, generic_filter(response._filters_from_querystring(), volumes))
        return ActionResult({"Volumes": [self._describe_volume(v) for v in shown], "NextToken": token})

    def describe_snapshots(self, response: Any) -> ActionResult:
        ids = response._get_param("SnapshotIds", [])
        snapshots = self._visible(
            ids, self.state.backend.snapshots, "InvalidSnapshot.NotFound", "The snapshot '{}' does not exist."
        )
        owners = response._get_param("OwnerIds", [])
        if owners and not {"self", self.state.cloud.settings.account_id} & set(owners):
            snapshots = []
        chosen = generic_filter(response._filters_from_querystring(), snapshots)
        shown, token = page(response, chosen)
        return ActionResult({"Snapshots": [_describe_snapshot(s) for s in shown], "NextToken": token})

    def get_ebs_default_kms_key_id(self, response: Any) -> ActionResult:
        """moto takes another default key, and tells nobody which one it has."""
        return ActionResult({"KmsKeyId": self.state.backend.default_kms_key_id or "alias/aws/ebs"})

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


def install(cloud: OpenCloud) -> None:
    """Answer EBS's actions from the data plane. Without a data plane moto's own records stay in charge."""
    from moto.ebs.responses import EBSResponse
    from moto.ec2.responses.elastic_block_store import ElasticBlockStore

    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)
    actions, direct = EbsActions(state), DirectActions(state)
    state.tag_what_is_visible()
    volume_actions = ("create_volume", "delete_volume", "attach_volume", "detach_volume", "describe_volumes")
    snapshot_actions = ("create_snapshot", "create_snapshots", "delete_snapshot", "describe_snapshots")
    for name in (*volume_actions, *snapshot_actions):
        state.replace_action(ElasticBlockStore, name, getattr(actions, name))
    state.add_action(ElasticBlockStore, "get_ebs_default_kms_key_id", actions.get_ebs_default_kms_key_id)
    state.refuse(ElasticBlockStore, "modify_volume", "describe_volume_status", "copy_snapshot")
    state.refuse(ElasticBlockStore, "modify_snapshot_tier", "restore_snapshot_tier")
    state.replace_action(EBSResponse, "list_snapshot_blocks", direct.list_snapshot_blocks)
    state.refuse(EBSResponse, "list_changed_blocks", "get_snapshot_block")
    state.refuse(EBSResponse, "start_snapshot", "put_snapshot_block", "complete_snapshot")
