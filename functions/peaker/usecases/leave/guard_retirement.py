"""GuardRetirement: the replica may go (I1 to I4, I8), with every reason if it may not."""

from __future__ import annotations

from collections.abc import Sequence

from peaker.domain.reading import describe
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.runs.ledger import ResourceKind, RunReplica, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.retirement import (
    LoadEvidence,
    guard_lifetime,
    guard_load,
    guard_removal,
    serves_nobody,
    why_called_back,
    why_needed,
)
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.held_lease import LATE_CALL_TIME
from peaker.usecases.run.run_memory import time_in_step
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import ReplicaNeeded, RetirementRefused
from peaker_contract.metrics import Metric

DRAIN_STEP = "DrainReplica"


def guard_retirement(ports: Ports, step: StepInput) -> Summary:
    """Raises RetirementRefused. The minimum lifetime binds automatic runs; a person may retire early."""
    settings = ports.clusters.settings(step.cluster)
    run = ports.ledger.run(step.run_id)
    instance_id = run.required(RunReplica, step.step).instance_id
    fleet = gather_fleet(ports, settings)
    replica = fleet.replica(instance_id)
    evidence = load_evidence(ports, settings)
    reasons = removal_reasons(ports, settings, fleet, instance_id, evidence)
    automatic = run.request.trigger.kind != "manual"
    if automatic and replica is not None and not replica.is_parked:
        reasons += guard_lifetime(replica, settings, ports.clock.now())
    if reasons:
        raise RetirementRefused(f"{instance_id}: {'; '.join(reasons)}")
    return Summary(
        text=f"{instance_id} may go",
        numbers={
            "serving": len(fleet.serving),
            "measured_load": describe(evidence.measured),
            "required_replicas": describe(evidence.required_replicas),
        },
    )


def load_evidence(ports: Ports, settings: ClusterSettings) -> LoadEvidence:
    """Measured load and the forecast's need, now."""
    now = ports.clock.now()
    return LoadEvidence(
        measured=ports.readings.load(settings, now),
        required_replicas=ports.readings.published(settings, Metric.REQUIRED_REPLICAS, now),
    )


def removal_reasons(
    ports: Ports,
    settings: ClusterSettings,
    fleet: FleetState,
    instance_id: str,
    evidence: LoadEvidence | None = None,
    lost_volumes: Sequence[str] = (),
) -> list[str]:
    """Everything that speaks against taking this replica away now (I1 to I4, I8).

    One that is parked, or down for want of `lost_volumes`, and is not healthy at the endpoint serves nobody: neither
    load nor floor can forbid it. One that was left behind in its ramp gets a few reads, but takes no load.
    """
    replica = fleet.replica(instance_id)
    reasons = guard_removal(replica, fleet, settings, ports.environment, lost_volumes)
    reasons += _recorded_reasons(ports, replica)
    in_the_making = replica is not None and replica.is_building and not replica.is_serving
    if replica is None or not (serves_nobody(replica, lost_volumes) or in_the_making):
        found = evidence or load_evidence(ports, settings)
        reasons += guard_load(found, fleet, settings, instance_id)
    return reasons


def require_removable(
    ports: Ports, settings: ClusterSettings, instance_id: str, lost_volumes: Sequence[str] = ()
) -> FleetState:
    """The guard on a fleet gathered afresh, immediately before a destructive call.

    Raises ReplicaNeeded where nothing but the need for it speaks against it, and RetirementRefused otherwise.
    """
    fleet, evidence = gather_fleet(ports, settings), load_evidence(ports, settings)
    reasons = removal_reasons(ports, settings, fleet, instance_id, evidence, lost_volumes)
    if not reasons:
        return fleet
    needed = set(reasons) <= set(why_needed(evidence, fleet, settings, instance_id))
    raise (ReplicaNeeded if needed else RetirementRefused)(f"{instance_id}: {'; '.join(reasons)}")


def require_not_needed(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str) -> None:
    """A replica that drains serves again as soon as those that stay do not suffice. Raises ReplicaNeeded.

    Not before LATE_CALL_TIME has passed: until then a call of DeregisterReplica whose answer was lost may take it out
    of the endpoint once more.
    """
    if time_in_step(ports, step, DRAIN_STEP) < LATE_CALL_TIME:
        return
    fleet = gather_fleet(ports, settings)
    if reasons := why_called_back(load_evidence(ports, settings), fleet, settings, instance_id):
        raise ReplicaNeeded(f"{instance_id}: {'; '.join(reasons)}")


def _recorded_reasons(ports: Ports, replica: Replica | None) -> list[str]:
    """I1: the run that the ledger's row names did record that it made this instance."""
    if replica is None or replica.ledger_row is None:
        return []
    made = of_kind(ports.ledger.resources(replica.ledger_row.run_id), ResourceKind.INSTANCE)
    if any(row.resource_id == replica.instance_id for row in made):
        return []
    return [
        f"run {replica.ledger_row.run_id} has no record of having made it; only what Peaker made may go (I1)"
    ]
