"""AwaitInstanceOnline, AwaitParkedReplica: the instance runs and its agent answers."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.host_results import require_parameters
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, find
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.create.launch_replica import ROOT_VOLUME_ROW
from peaker.usecases.run.run_memory import host_id, intend, time_in_step
from peaker_contract.errors import InstanceFailed, InstanceNotOnline, ResourceNotFound

_ENDED = {"shutting-down", "terminated"}
_STOPPED = {"stopping", "stopped"}
# EC2 shows a start within seconds; an instance that still is, or is again, stopped after this could not start.
_START_SHOWS_WITHIN = timedelta(minutes=2)


def await_instance_online(ports: Ports, step: StepInput) -> Summary:
    """Raises InstanceNotOnline until then, InstanceFailed when the instance stopped or ended instead, AgentTooOld.

    An instance that the run has not made was parked, and may show as stopped right after its start.
    """
    instance_id = host_id(ports, step, "replica")
    try:
        instance = ports.compute.instance(instance_id)
    except ResourceNotFound as unknown:
        raise InstanceNotOnline(f"{instance_id} does not show yet") from unknown
    root = find(ports.ledger.resources(step.run_id), ResourceKind.VOLUME, ROOT_VOLUME_ROW)
    may_still_stand = root is None and time_in_step(ports, step) <= _START_SHOWS_WITHIN
    if instance.state in _ENDED or (instance.state in _STOPPED and not may_still_stand):
        why = instance.state_reason or "EC2 gives no reason"
        raise InstanceFailed(f"{instance_id} is {instance.state}: {why}; see its console output")
    if instance.state != "running" or not (agent := ports.commands.agent(instance_id)).is_online:
        raise InstanceNotOnline(f"{instance_id} is {instance.state}, its agent does not answer yet")
    if root is not None and root.resource_id is None:
        _record_image_volumes(ports, step, instance_id, root)
    require_parameters(instance_id, agent)
    return Summary(text=f"{instance_id} answers", numbers={"private_ip": instance.private_ip})


def _record_image_volumes(ports: Ports, step: StepInput, instance_id: str, root: ResourceRow) -> None:
    """EC2 tags all volumes of the image alike, and may keep those beside the root when the instance ends.

    The row `root` gets its id last: a call that dies before is repeated.
    """
    found = [one for one in ports.storage.volumes_of_instance(instance_id) if one.name == ROOT_VOLUME_ROW]
    found.sort(key=lambda one: one.device or "")
    for one in reversed(found):
        name = f"{ROOT_VOLUME_ROW}{one.device}"
        row = root if one is found[0] else intend(ports, step, ResourceKind.VOLUME, name)
        ports.ledger.made(step.holder, row, one.volume_id, ports.clock.now())
