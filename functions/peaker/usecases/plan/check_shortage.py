"""CheckShortage: whether an automatic start has anything to build, before it takes the lease from anybody."""

from __future__ import annotations

from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import PlanStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NoShortage
from peaker_contract.metrics import Metric


def check_shortage(ports: Ports, step: PlanStep) -> Summary:
    """Raises NoShortage when the fleet is large enough, or nothing is known that asks for more.

    Writes nothing. PlanScaleOut asks the same again once it holds the lease.
    """
    settings = ports.clusters.settings(step.cluster)
    found = why_not_short(ports, settings, step.trigger, gather_fleet(ports, settings))
    if found is not None:
        raise NoShortage(found)
    return Summary(text=f"{settings.name}: a replica is missing")


def missing_replicas(ports: Ports, settings: ClusterSettings, fleet: FleetState) -> int | Unknown:
    """How many replicas the forecast needs beyond those that serve or come; negative where there are too many."""
    required = ports.readings.published(settings, Metric.REQUIRED_REPLICAS, ports.clock.now())
    if isinstance(required, Unknown):
        return required
    return int(required.value) - len(fleet.serving) - len(fleet.coming)


def why_not_short(ports: Ports, settings: ClusterSettings, trigger: Trigger, fleet: FleetState) -> str | None:
    """Why there is nothing to build, or None. An alarm may come late or twice; the schedule asks without a reason.

    An unknown need does not stop an alarm, which saw it moments ago: adding is the safe side. The schedule
    holds on it (I4).
    """
    now = ports.clock.now()
    observing = ports.readings.published(settings, Metric.OBSERVING, now)
    if isinstance(observing, Known) and observing.value > 0:
        return f"{settings.name} is only observed (settings: observation), nothing is built by itself"
    required = ports.readings.published(settings, Metric.REQUIRED_REPLICAS, now)
    coming = len(fleet.serving) + len(fleet.coming)
    if isinstance(required, Unknown) and trigger.kind == "schedule":
        return f"{settings.name}: the forecast's need is unknown ({required.why}); unknown means hold (I4)"
    if isinstance(required, Known) and required.value <= coming:
        return f"{settings.name}: the forecast needs {required.value:g} replicas, {coming} serve or are being built"
    return None
