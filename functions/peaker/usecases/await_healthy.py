"""AwaitHealthy: the read endpoint sends reads to the replica."""

from __future__ import annotations

from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import TargetNotHealthy
from peaker.domain.fleet import ReplicaRow, ReplicaState
from peaker.domain.inventory import TargetHealth, TargetState
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.held_lease import holder_of
from peaker.usecases.run_facts import host_id


def await_healthy(ports: Ports, step: StepInput) -> Summary:
    """Raises TargetNotHealthy with the endpoint's reason until then."""
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step.run_id, "replica")
    require_healthy(ports, settings, instance_id)
    row = ReplicaRow(step.cluster, instance_id, step.run_id, ReplicaState.IN_SERVICE, ports.clock.now())
    ports.ledger.set_replica(holder_of(step), row)
    return Summary(text=f"{instance_id} serves", numbers={"target": instance_id})


def require_healthy(ports: Ports, settings: ClusterSettings, instance_id: str) -> None:
    """Raises TargetNotHealthy unless the endpoint calls it healthy."""
    health = ports.endpoint.health(settings).get(instance_id, TargetHealth(TargetState.ABSENT))
    if health.state is not TargetState.HEALTHY:
        raise TargetNotHealthy(f"{instance_id}: {health.state.value} {health.reason}".rstrip())
