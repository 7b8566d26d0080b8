"""DeregisterReplica: no new reads go to the replica; those that are open may end."""

from __future__ import annotations

from peaker.domain.errors import RetirementRefused
from peaker.domain.fleet import ReplicaRow, ReplicaState
from peaker.domain.retirement import guard_removal
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.held_lease import holder_of
from peaker.usecases.observe_fleet import observe_fleet
from peaker.usecases.run_facts import fact


def deregister_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks I1 to I4 on the live fleet right before the call. Raises RetirementRefused."""
    settings = ports.clusters.settings(step.cluster)
    chosen = fact(ports.ledger.run(step.run_id), "replica")
    instance_id = str(chosen["instance_id"])
    observation = observe_fleet(ports, settings)
    reasons = guard_removal(observation.replica(instance_id), observation, settings, ports.environment)
    if reasons:
        raise RetirementRefused(f"{instance_id}: {'; '.join(reasons)}")
    now = ports.clock.now()
    row = ReplicaRow(step.cluster, instance_id, str(chosen["run_id"]), ReplicaState.DRAINING, now)
    ports.ledger.set_replica(holder_of(step), row)
    ports.endpoint.deregister(settings, instance_id)
    return Summary(
        text=f"{instance_id} drains", numbers={"target": instance_id, "serving": len(observation.serving)}
    )
