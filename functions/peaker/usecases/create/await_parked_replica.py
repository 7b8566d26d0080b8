"""AwaitParkedReplica: the instance of a parked replica runs and its agent answers."""

from __future__ import annotations

from peaker.domain.instants import seconds_between
from peaker.domain.replicas.agent import require_parameters
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import host_id
from peaker_contract.errors import InstanceFailed, InstanceNotOnline

# EC2 shows a start within seconds; an instance that still is, or is again, stopped after this could not start.
_START_SHOWS_SECONDS = 120.0


def await_parked_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises InstanceNotOnline until then, InstanceFailed when it ends or does not start, AgentTooOld."""
    instance_id = host_id(ports, step, "replica")
    instance = ports.compute.instance(instance_id)
    if instance.state in {"shutting-down", "terminated"}:
        raise InstanceFailed(f"{instance_id} is {instance.state}")
    if instance.state in {"stopping", "stopped"} and _waited_seconds(ports, step) > _START_SHOWS_SECONDS:
        raise InstanceFailed(f"{instance_id} is {instance.state} again; see its state reason")
    if instance.state != "running" or not (agent := ports.commands.agent(instance_id)).is_online:
        raise InstanceNotOnline(f"{instance_id} is {instance.state}, its agent does not answer yet")
    require_parameters(instance_id, agent)
    return Summary(text=f"{instance_id} answers", numbers={"private_ip": instance.private_ip})


def _waited_seconds(ports: Ports, step: StepInput) -> float:
    started = next((row.started_at for row in ports.ledger.steps(step.run_id) if row.step == step.step), None)
    return 0.0 if started is None else seconds_between(started, ports.clock.now())
