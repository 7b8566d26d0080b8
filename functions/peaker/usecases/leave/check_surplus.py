"""CheckSurplus: whether an automatic start has anything to take away, before it takes the lease from anybody."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import Summary, SurplusStep
from peaker.domain.service.retirement import LoadEvidence, guard_lifetime
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import load_evidence, removal_reasons
from peaker.usecases.leave.select_idle_replicas import idle_replicas
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NoSurplus
from peaker_contract.metrics import Metric


def check_surplus(ports: Ports, step: SurplusStep) -> Summary:
    """Raises NoSurplus when no replica is to spare and no parked one is to be retired, or nothing is known of it.

    Writes nothing. SelectIdleReplicas and GuardRetirement ask the same again under the lease.
    """
    settings = ports.clusters.settings(step.cluster)
    found = why_no_surplus(ports, settings, step.trigger, gather_fleet(ports, settings))
    if found is not None:
        raise NoSurplus(found)
    return Summary(text=f"{settings.name}: a replica may go")


def why_no_surplus(
    ports: Ports, settings: ClusterSettings, trigger: Trigger, fleet: FleetState
) -> str | None:
    """Why nothing goes, or None. An alarm may come late or twice; the schedule asks without a reason.

    A parked replica that has expired serves nobody and goes at any load, but never before a
    replica that is missing: that one needs the lease first. An unknown surplus stops the schedule (I4); an alarm saw it
    moments ago. What GuardRetirement would refuse is refused here, before the lease.
    """
    now = ports.clock.now()
    observing = ports.readings.published(settings, Metric.OBSERVING, now)
    if isinstance(observing, Known) and observing.value > 0:
        return f"{settings.name} is only observed (settings: observation), nothing is taken away by itself"
    load = load_evidence(ports, settings)
    _, idle = idle_replicas(ports, settings, fleet, load, trigger)
    if not idle.replicas:
        return f"{settings.name}: {idle.text}"
    if idle.replicas[0].is_parked:
        coming, required = len(fleet.serving) + len(fleet.coming), load.required_replicas
        if isinstance(required, Known) and required.value > coming:
            return f"{settings.name}: {required.value:g} replicas are needed, {coming} serve; scale_out goes first"
        return None
    return _not_to_spare(ports, settings, trigger, now) or _guarded(
        ports, settings, fleet, idle.replicas[0], load
    )


def _not_to_spare(ports: Ports, settings: ClusterSettings, trigger: Trigger, now: datetime) -> str | None:
    surplus = ports.readings.published(settings, Metric.REPLICA_SURPLUS, now)
    if isinstance(surplus, Unknown) and trigger.kind == "schedule":
        return f"{settings.name}: the surplus is unknown ({surplus.why}); unknown means hold (I4)"
    if isinstance(surplus, Known) and surplus.value <= 0:
        return f"{settings.name}: the forecast has no replica to spare"
    return None


def _guarded(
    ports: Ports, settings: ClusterSettings, fleet: FleetState, replica: Replica, load: LoadEvidence
) -> str | None:
    reasons = removal_reasons(ports, settings, fleet, replica.instance_id, load)
    reasons += guard_lifetime(replica, settings, ports.clock.now())
    return f"{replica.instance_id}: {'; '.join(reasons)}" if reasons else None
