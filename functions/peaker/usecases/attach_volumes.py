"""AttachVolumes: every data volume at its device, seen attached."""

from __future__ import annotations

from peaker.domain.cluster import VolumeSettings
from peaker.domain.errors import VolumeFailed, VolumesAttaching
from peaker.domain.inventory import Volume
from peaker.domain.ledger import ResourceKind
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.held_lease import holder_of
from peaker.usecases.launch_replica import INSTANCE_ROW
from peaker.usecases.run_facts import made_id


def attach_volumes(ports: Ports, step: StepInput) -> Summary:
    """AttachVolume has no ClientToken: each volume's state is read first. Raises VolumesAttaching until done."""
    rows = ports.ledger.resources(step.run_id)
    instance_id = made_id(rows, ResourceKind.INSTANCE, INSTANCE_ROW)
    volumes = {volume.volume_id: volume for volume in ports.storage.volumes_of_run(step.run_id)}
    waiting: list[str] = []
    attached: dict[str, str] = {}
    for wanted in ports.clusters.settings(step.cluster).volumes:
        volume_id = made_id(rows, ResourceKind.VOLUME, wanted.name)
        volume = volumes.get(volume_id)
        if volume is not None and _is_attached(volume, instance_id):
            _record(ports, step, wanted, volume_id, instance_id)
            attached[wanted.name] = volume_id
        else:
            waiting.append(_advance(ports, step, wanted, volume, volume_id, instance_id))
    if waiting:
        raise VolumesAttaching("; ".join(waiting))
    return Summary(text=f"{len(attached)} volumes at {instance_id}", numbers={"attached": attached})


def _is_attached(volume: Volume, instance_id: str) -> bool:
    return volume.instance_id == instance_id and volume.attachment_state == "attached"


def _advance(
    ports: Ports,
    step: StepInput,
    wanted: VolumeSettings,
    volume: Volume | None,
    volume_id: str,
    instance_id: str,
) -> str:
    """Do what the volume's state asks for; returns what is waited for."""
    if volume is None:
        return f"{volume_id} does not show yet"
    if volume.state == "error":
        raise VolumeFailed(
            f"{volume_id} ({wanted.name}) ended in state error; its snapshot may be unreadable"
        )
    if volume.state != "available":
        return f"{volume_id} is {volume.attachment_state or volume.state}"
    ports.ledger.intend(
        holder_of(step),
        ResourceKind.ATTACHMENT,
        wanted.name,
        step.step,
        ports.clock.now(),
        {"volume_id": volume_id, "instance_id": instance_id, "device": wanted.device},
    )
    ports.storage.attach(volume_id, instance_id, wanted.device)
    return f"{volume_id} begins to attach at {wanted.device}"


def _record(ports: Ports, step: StepInput, wanted: VolumeSettings, volume_id: str, instance_id: str) -> None:
    now = ports.clock.now()
    details = {"volume_id": volume_id, "instance_id": instance_id, "device": wanted.device}
    row = ports.ledger.intend(holder_of(step), ResourceKind.ATTACHMENT, wanted.name, step.step, now, details)
    if row.resource_id is None:
        ports.ledger.made(holder_of(step), row, f"{volume_id}:{wanted.device}", now)
