"""RestoreReplica: a retirement that failed puts the replica back into service (I9)."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.fleet import ReplicaState
from peaker.domain.run import FailedStep, Failure, Summary
from peaker.ports import Ports
from peaker.usecases.await_healthy import require_healthy
from peaker.usecases.held_lease import holder_of
from peaker.usecases.retire_replica import is_leaving


class Restored(Summary):
    """`restored` is false when the instance had begun to terminate: then the retirement must be finished."""

    restored: bool
    failure: Failure


def restore_replica(ports: Ports, step: FailedStep) -> Restored:
    """Raises TargetNotHealthy until the replica serves again."""
    failure = step.failure.innermost()
    chosen = ports.ledger.run(step.run_id).facts.get("replica")
    if chosen is None:
        return Restored(text="no replica was chosen", restored=True, failure=failure)
    instance_id = str(chosen["instance_id"])
    if is_leaving(ports, instance_id):
        return Restored(text=f"{instance_id} terminates already", restored=False, failure=failure)
    row = ports.ledger.replicas(step.cluster).get(instance_id)
    if row is None or row.state is not ReplicaState.DRAINING:
        return Restored(text=f"{instance_id} was never taken out", restored=True, failure=failure)
    settings = ports.clusters.settings(step.cluster)
    ports.endpoint.register(settings, instance_id)
    ports.endpoint.promote(settings, instance_id)
    require_healthy(ports, settings, instance_id)
    serving = replace(row, state=ReplicaState.IN_SERVICE, changed_at=ports.clock.now())
    ports.ledger.set_replica(holder_of(step), serving)
    return Restored(text=f"{instance_id} serves again", restored=True, failure=failure)
