"""AwaitInstanceOnline: the instance runs and its agent answers."""

from __future__ import annotations

from peaker.domain.replicas.agent import require_parameters
from peaker.domain.runs.ledger import ResourceKind, find
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.create.launch_replica import ROOT_VOLUME_ROW
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.run_memory import host_id
from peaker_contract.errors import InstanceFailed, InstanceNotOnline, ResourceNotFound

_LOST = {"shutting-down", "terminated", "stopping", "stopped"}


def await_instance_online(ports: Ports, step: StepInput) -> Summary:
    """Raises InstanceNotOnline until then, InstanceFailed when the instance stopped or ended instead, AgentTooOld."""
    instance_id = host_id(ports, step, "replica")
    try:
        instance = ports.compute.instance(instance_id)
    except ResourceNotFound as unknown:
        raise InstanceNotOnline(f"{instance_id} does not show yet") from unknown
    if instance.state in _LOST:
        raise InstanceFailed(f"{instance_id} is {instance.state}; see its state reason and console output")
    if instance.state != "running" or not (agent := ports.commands.agent(instance_id)).is_online:
        raise InstanceNotOnline(f"{instance_id} is {instance.state}, its agent does not answer yet")
    _record_root_volume(ports, step, instance_id)
    require_parameters(instance_id, agent)
    return Summary(text=f"{instance_id} answers", numbers={"private_ip": instance.private_ip})


def _record_root_volume(ports: Ports, step: StepInput, instance_id: str) -> None:
    row = find(ports.ledger.resources(step.run_id), ResourceKind.VOLUME, ROOT_VOLUME_ROW)
    roots = ports.storage.volumes_of_instance(instance_id)
    if row is not None and row.resource_id is None and roots:
        ports.ledger.made(holder_of(step), row, roots[0].volume_id, ports.clock.now())
