"""AwaitHealthy: the read endpoint finds the newcomer healthy."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from peaker.domain.replicas.fleet import REGISTERED
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import host_id
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import TargetNotHealthy


def await_healthy(ports: Ports, step: StepInput) -> Summary:
    """Raises TargetNotHealthy with the endpoint's reason until the warming group calls it healthy."""
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    _require(ports.endpoint.warming_health(settings), instance_id)
    return Summary(text=f"{instance_id} may get reads", numbers={"target": instance_id})


def require_healthy(ports: Ports, settings: ClusterSettings, instance_id: str) -> None:
    """Raises TargetNotHealthy unless the serving group calls it healthy."""
    _require(ports.endpoint.health(settings), instance_id)


def require_registered(ports: Ports, settings: ClusterSettings, instance_id: str) -> None:
    """Raises TargetNotHealthy unless the serving group has it; its health checks may still be ahead."""
    _require(ports.endpoint.health(settings), instance_id, REGISTERED)


def _require(
    group: Mapping[str, TargetHealth],
    instance_id: str,
    states: Collection[TargetState] = (TargetState.HEALTHY,),
) -> None:
    health = group.get(instance_id, TargetHealth(TargetState.ABSENT))
    if health.state not in states:
        raise TargetNotHealthy(f"{instance_id}: {health.state.value} {health.reason}".rstrip())
