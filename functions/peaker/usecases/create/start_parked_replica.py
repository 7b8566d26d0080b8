"""StartParkedReplica: the instance of a parked replica starts; from here on it is in the making."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.instants import to_iso
from peaker.domain.planning.parking import parked_seconds, why_not_returned
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import Replica, ReplicaState
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.plan.observe_fleet import observe_fleet
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.errors import LedgerInconsistent, ReturnRefused


def start_parked_replica(ports: Ports, step: StepInput) -> Summary:
    """Rechecks that it may come back. Raises ReturnRefused; CapacityUnavailable when EC2 has no room for it."""
    settings = ports.clusters.settings(step.cluster)
    run = ports.ledger.run(step.run_id)
    instance_id = ScaleOutPlan.model_validate(run.plan).returns
    if instance_id is None:
        raise LedgerInconsistent(f"{step.run_id}: the plan returns no parked replica")
    observation = observe_fleet(ports, settings)
    replica = observation.replica(instance_id)
    if replica is None or replica.ledger_row is None:
        raise ReturnRefused(f"{instance_id} is not among the replicas of {step.cluster} any more")
    if isinstance(observation.source, Unknown):
        raise ReturnRefused(
            f"{instance_id}: the source is unknown: {observation.source.why}; what is unknown is held (I4)"
        )
    now = ports.clock.now()
    begun = run.facts.get("replica") is not None and replica.ledger_row.state is ReplicaState.BUILDING
    if not begun:
        why_not = why_not_returned(replica, ports.environment, now)
        if why_not is not None:
            raise ReturnRefused(f"{instance_id}: {why_not}")
        facts = {
            "replica": _facts(replica, to_iso(now)),
            "source": {
                "instance_id": observation.source.instance_id,
                "private_ip": observation.source.private_ip,
            },
        }
        ports.ledger.save_facts(holder_of(step), facts)
        building = replace(replica.ledger_row, state=ReplicaState.BUILDING, changed_at=now)
        ports.ledger.set_replica(holder_of(step), building)
    ports.compute.start(instance_id)
    hours = parked_seconds(replica, now) / 3600
    return Summary(
        text=f"{instance_id} starts after {hours:.1f} h",
        numbers={"instance_id": instance_id, "zone": replica.instance.zone, "parked_hours": round(hours, 3)},
    )


def _facts(replica: Replica, started_at: str) -> dict[str, str]:
    """As of a build; with the run that built it, whose id its tags carry. Its hours count from this start."""
    assert replica.ledger_row is not None
    return {
        "instance_id": replica.instance_id,
        "run_id": replica.ledger_row.run_id,
        "zone": replica.instance.zone,
        "private_ip": replica.instance.private_ip,
        "launched_at": started_at,
    }
