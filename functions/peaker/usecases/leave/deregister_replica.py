"""DeregisterReplica: no new reads go to the replica; those that are open may end."""

from __future__ import annotations

from peaker.domain.replicas.fleet import FleetState, ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import Removal, RunReplica
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import require_removable
from peaker.usecases.run.run_memory import settled


def deregister_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks I1 to I4 and I8 on the live fleet right before the call. Raises RetirementRefused.

    Of two that go side by side and count on one another one begins to leave; the other raises Throttled and counts
    again, without it (I3).
    """
    settings = ports.clusters.settings(step.cluster)
    chosen = settled(ports, step, RunReplica)
    instance_id = chosen.instance_id
    fleet = require_removable(ports, settings, instance_id)
    now = ports.clock.now()
    row = ReplicaRow(step.cluster, instance_id, chosen.builder, ReplicaState.DRAINING, now)
    ports.ledger.begin_exit(step.holder, row, _counted_on(ports, step, fleet, instance_id))
    ports.endpoint.deregister(settings, instance_id)
    return Summary(
        text=f"{instance_id} drains", numbers={"target": instance_id, "serving": len(fleet.serving)}
    )


def _counted_on(ports: Ports, step: StepInput, fleet: FleetState, instance_id: str) -> tuple[str, ...]:
    """Returns the staying replicas that may begin to leave meanwhile: under this lease, members of this batch (I6)."""
    removal = ports.ledger.run(step.shared_run).part(Removal)
    leaving = set() if removal is None else {one.instance_id for one in removal.replicas} - {instance_id}
    return tuple(one.instance_id for one in fleet.staying if one.instance_id in leaving)
