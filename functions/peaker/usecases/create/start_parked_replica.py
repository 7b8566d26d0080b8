"""StartParkedReplica: the instance of a parked replica starts; from here on it is in the making."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.parked import parked_seconds, why_not_returned
from peaker.domain.runs.ledger import RunReplica, Source
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.create.start_instance import start_instance
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.run_memory import plan_of_run
from peaker_contract.errors import LedgerInconsistent, ReturnRefused


def start_parked_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks that it may come back, before its instance starts.

    Raises ReturnRefused; CapacityUnavailable when EC2 has no room for it.
    """
    settings = ports.clusters.settings(step.cluster)
    plan = plan_of_run(ports, step)
    instance_id = plan.returns
    if instance_id is None:
        raise LedgerInconsistent(f"{step.run_id}: the plan returns no parked replica")
    fleet = gather_fleet(ports, settings)
    replica = fleet.replica(instance_id)
    if replica is None or replica.ledger_row is None:
        raise ReturnRefused(f"{instance_id} is not among the replicas of {step.cluster} any more")
    if isinstance(fleet.source, Unknown):
        raise ReturnRefused(
            f"{instance_id}: the source is unknown: {fleet.source.why}; what is unknown is held (I4)"
        )
    now = ports.clock.now()
    # Read after the fleet: another call of this step writes its part of the run before the replica's row.
    run = ports.ledger.run(step.run_id)
    begun = run.part(RunReplica) is not None and replica.ledger_row.state is ReplicaState.BUILDING
    if not begun:
        why_not = why_not_returned(replica, ports.environment, now)
        if why_not is not None:
            raise ReturnRefused(f"{instance_id}: {why_not}")
        back = RunReplica(instance_id=instance_id, builder=replica.ledger_row.run_id, running_since=now)
        source = Source(instance_id=fleet.source.instance_id, private_ip=fleet.source.private_ip)
        ports.ledger.settle(step.holder, back, source)
        building = replace(replica.ledger_row, state=ReplicaState.BUILDING, changed_at=now)
        ports.ledger.set_replica(step.holder, building)
    ports.ledger.require_lease(step.holder)
    group_arn = None if plan.build is None else plan.build.capacity_reservation_group_arn
    start_instance(ports, instance_id, group_arn)
    hours = parked_seconds(replica, now) / 3600
    return Summary(
        text=f"{instance_id} starts after {hours:.1f} h",
        numbers={
            "instance_id": instance_id,
            "zone": replica.instance.zone,
            "parked_hours": round(hours, 3),
        },
    )
