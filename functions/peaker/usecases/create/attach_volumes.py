"""AttachVolumes: every data volume at its device, seen attached."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.replicas.inventory import Volume
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, find
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import host_id, intend, made_id, plan_of_run
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
        if volume is not None and (volume.instance_id, volume.attachment_state) == (instance_id, "attached"):
            row = _intended(ports, step, wanted, volume_id, instance_id)
            if row.resource_id is None:
                ports.ledger.made(step.holder, row, f"{volume_id}:{wanted.device}", ports.clock.now())
            attached[wanted.name] = volume_id
            continue
        made = find(rows, ResourceKind.VOLUME, wanted.name)
        made_at = made.made_at if made is not None and made.made_at is not None else ports.clock.now()
        waiting.append(_advance(ports, step, wanted, volume, volume_id, instance_id, made_at))
    if waiting:
        raise VolumesAttaching("; ".join(waiting))
    return Summary(text=f"{len(attached)} volumes at {instance_id}", numbers={"attached": attached})


def _intended(
    ports: Ports, step: StepInput, wanted: PlannedVolume, volume_id: str, instance_id: str
) -> ResourceRow:
    details = {"volume_id": volume_id, "instance_id": instance_id, "device": wanted.device}
    return intend(ports, step, ResourceKind.ATTACHMENT, wanted.name, details)


def _advance(
    ports: Ports,
    step: StepInput,
    wanted: PlannedVolume,
    volume: Volume | None,
    volume_id: str,
    instance_id: str,
    made_at: datetime,
) -> str:
    """Begins to attach an available volume; returns what is waited for."""
    if volume is not None:
        if volume.state == "error":
            raise VolumeFailed(
                f"{volume_id} ({wanted.name}) ended in state error; its snapshot may be unreadable"
            )
        if volume.state != "available":
            return f"{volume_id} is {volume.attachment_state or volume.state}"
        _intended(ports, step, wanted, volume_id, instance_id)
        ports.ledger.require_lease(step.holder)
        # A list showed it, and a call by id may not find it yet.
        with suppress(ResourceNotFound):
            ports.storage.attach(volume_id, instance_id, wanted.device)
            return f"{volume_id} begins to attach at {wanted.device}"
    if ports.clock.now() - made_at >= SHOWN_WITHIN:
        minutes = SHOWN_WITHIN.total_seconds() / 60
        raise VolumeVanished(
            f"{volume_id} ({wanted.name}) does not exist {minutes:.0f} min after EC2 had answered that it is being "
            "made; EBS could not use the KMS key of its snapshot"
        )
    return f"{volume_id} does not show yet"
