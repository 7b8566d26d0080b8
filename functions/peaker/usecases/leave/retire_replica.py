"""RetireReplica: the instance, its volumes and what else its run made are gone."""

from __future__ import annotations

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import ResourceKind, ResourceState, RunReplica, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import require_removable
from peaker.usecases.run.run_memory import instance_state, settled
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker_contract.errors import RetirementInProgress, RetirementRefused

_LEAVING = {"shutting-down", "terminated"}


def retire_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks I1 to I4 and I8 right before it terminates; raises RetirementInProgress until all is gone.

    A replica that does not drain by its row (left behind in the making, or parked and registered by a person) may have
    clients: they get the endpoint's time. One of which somebody detached a volume goes at any load.
    """
    settings = ports.clusters.settings(step.cluster)
    chosen = settled(ports, step, RunReplica)
    instance_id, builder = chosen.instance_id, chosen.builder
    if not is_leaving(ports, instance_id):
        try:
            require_removable(ports, settings, instance_id, lost_volumes(ports, instance_id, builder))
        except RetirementRefused:
            # Another call of this step may have terminated it since.
            if not is_leaving(ports, instance_id):
                raise
    holder = step.holder
    row = ports.ledger.replicas(step.cluster).get(instance_id)
    drained = row is not None and row.state is ReplicaState.DRAINING
    waiting = tear_down(TearDown(ports, holder, settings, builder, drained=drained))
    if waiting:
        raise RetirementInProgress(f"{instance_id}: waiting for {', '.join(waiting)}")
    row = ReplicaRow(step.cluster, instance_id, builder, ReplicaState.RETIRED, ports.clock.now())
    ports.ledger.set_replica(holder, row)
    return Summary(
        text=f"{instance_id} and what {builder} made for it are gone",
        numbers={"instance_id": instance_id, "built_by": builder},
    )


def is_leaving(ports: Ports, instance_id: str) -> bool:
    """True when the instance is being terminated or gone: there is no way back."""
    return instance_state(ports, instance_id) in _LEAVING


def lost_volumes(ports: Ports, instance_id: str, builder: str) -> tuple[str, ...]:
    """Returns the volumes of the run that built it which somebody detached or deleted, in order of their making.

    The instance says what is attached: a volume that lost its tags is not lost.
    """
    attached = {one.volume_id for one in ports.storage.volumes_of_instance(instance_id)}
    made = of_kind(ports.ledger.resources(builder), ResourceKind.VOLUME)
    here = [row.resource_id for row in made if row.state is not ResourceState.UNDONE]
    return tuple(one for one in here if one is not None and one not in attached)
