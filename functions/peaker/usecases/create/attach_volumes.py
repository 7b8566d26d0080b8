"""AttachVolumes: every data volume at its device, seen attached."""

from __future__ import annotations

from datetime import datetime, timedelta

from peaker.domain.document.plan import PlannedVolume
from peaker.domain.replicas.inventory import Volume
from peaker.domain.runs.ledger import ResourceKind, find
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.run_memory import host_id, made_id, plan_of_run
from peaker_contract.errors import ResourceNotFound, VolumeFailed, VolumesAttaching, VolumeVanished

# Describe lags by seconds, never by minutes.
SHOWN_WITHIN = timedelta(minutes=5)


def attach_volumes(ports: Ports, step: StepInput) -> Summary:
    """AttachVolume has no ClientToken: each volume's state is read first. Raises VolumesAttaching until done.

    Raises VolumeVanished for one that still does not show after SHOWN_WITHIN: CreateVolume answers before EBS has used
    the key, and a volume whose key it cannot use goes away without a word.
    """
    rows = ports.ledger.resources(step.run_id)
    instance_id = host_id(ports, step, "replica")
    volumes = {volume.volume_id: volume for volume in ports.storage.volumes_of_run(step.run_id)}
    waiting: list[str] = []
    attached: dict[str, str] = {}
    for wanted in plan_of_run(ports, step).volumes:
        volume_id = made_id(rows, ResourceKind.VOLUME, wanted.name)
        volume = volumes.get(volume_id)
        row = find(rows, ResourceKind.VOLUME, wanted.name)
        made_at = None if row is None else row.made_at
        if volume is not None and _is_attached(volume, instance_id):
            _record(ports, step, wanted, volume_id, instance_id)
            attached[wanted.name] = volume_id
        else:
            waiting.append(_advance(ports, step, wanted, volume, volume_id, instance_id, made_at))
    if waiting:
        raise VolumesAttaching("; ".join(waiting))
    return Summary(text=f"{len(attached)} volumes at {instance_id}", numbers={"attached": attached})


def _is_attached(volume: Volume, instance_id: str) -> bool:
    return volume.instance_id == instance_id and volume.attachment_state == "attached"


def _advance(
    ports: Ports,
    step: StepInput,
    wanted: PlannedVolume,
    volume: Volume | None,
    volume_id: str,
    instance_id: str,
    made_at: datetime | None,
) -> str:
    """Do what the volume's state asks for; returns what is waited for."""
    if volume is None:
        return _not_shown(ports, wanted, volume_id, made_at)
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
    ports.ledger.require_lease(holder_of(step))
    try:
        ports.storage.attach(volume_id, instance_id, wanted.device)
    except ResourceNotFound:
        # A list showed it, and a call by id may not find it yet.
        return _not_shown(ports, wanted, volume_id, made_at)
    return f"{volume_id} begins to attach at {wanted.device}"


def _not_shown(ports: Ports, wanted: PlannedVolume, volume_id: str, made_at: datetime | None) -> str:
    since = made_at or ports.clock.now()
    if ports.clock.now() - since >= SHOWN_WITHIN:
        minutes = SHOWN_WITHIN.total_seconds() / 60
        raise VolumeVanished(
            f"{volume_id} ({wanted.name}) does not exist {minutes:.0f} min after EC2 had answered that it is being "
            "made; EBS could not use the KMS key of its snapshot"
        )
    return f"{volume_id} does not show yet"


def _record(ports: Ports, step: StepInput, wanted: PlannedVolume, volume_id: str, instance_id: str) -> None:
    now = ports.clock.now()
    details = {"volume_id": volume_id, "instance_id": instance_id, "device": wanted.device}
    row = ports.ledger.intend(holder_of(step), ResourceKind.ATTACHMENT, wanted.name, step.step, now, details)
    if row.resource_id is None:
        ports.ledger.made(holder_of(step), row, f"{volume_id}:{wanted.device}", now)
