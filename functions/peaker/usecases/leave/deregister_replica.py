"""DeregisterReplica: no new reads go to the replica; those that are open may end."""

from __future__ import annotations

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.runs.run_memory import RunReplica
from peaker.ports import Ports
from peaker.usecases.leave.guard_retirement import require_removable
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.run_memory import settled


def deregister_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks I1 to I4 and I8 on the live fleet right before the call. Raises RetirementRefused."""
    settings = ports.clusters.settings(step.cluster)
    chosen = settled(ports, step, RunReplica)
    instance_id = chosen.instance_id
    fleet = require_removable(ports, settings, instance_id)
    now = ports.clock.now()
    row = ReplicaRow(step.cluster, instance_id, chosen.builder, ReplicaState.DRAINING, now)
    ports.ledger.set_replica(holder_of(step), row)
    ports.endpoint.deregister(settings, instance_id)
    return Summary(
        text=f"{instance_id} drains", numbers={"target": instance_id, "serving": len(fleet.serving)}
    )
