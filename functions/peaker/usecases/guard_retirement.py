"""GuardRetirement: the replica may go (I1 to I4, I8), with every reason if it may not."""

from __future__ import annotations

from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import RetirementRefused
from peaker.domain.fleet import Observation
from peaker.domain.metric_names import REQUIRED_REPLICAS
from peaker.domain.reading import describe
from peaker.domain.retirement import LoadEvidence, guard_lifetime, guard_load, guard_removal
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.observe_fleet import observe_fleet
from peaker.usecases.run_facts import fact


def guard_retirement(ports: Ports, step: StepInput) -> Summary:
    """Raises RetirementRefused. The minimum lifetime binds automatic runs; a person may retire early."""
    settings = ports.clusters.settings(step.cluster)
    run = ports.ledger.run(step.run_id)
    instance_id = str(fact(run, "replica")["instance_id"])
    observation = observe_fleet(ports, settings)
    replica = observation.replica(instance_id)
    evidence = load_evidence(ports, settings)
    reasons = [
        *guard_removal(replica, observation, settings, ports.environment),
        *guard_load(evidence, observation, settings),
    ]
    automatic = (run.request.get("trigger") or {}).get("kind", "manual") != "manual"
    if automatic and replica is not None:
        reasons += guard_lifetime(replica, settings, ports.clock.now())
    if reasons:
        raise RetirementRefused(f"{instance_id}: {'; '.join(reasons)}")
    return Summary(
        text=f"{instance_id} may go",
        numbers={
            "serving": len(observation.serving),
            "observed_load": describe(evidence.observed),
            "required_replicas": describe(evidence.required_replicas),
        },
    )


def load_evidence(ports: Ports, settings: ClusterSettings) -> LoadEvidence:
    """Observed load and the forecast's need, now."""
    now = ports.clock.now()
    return LoadEvidence(
        observed=ports.readings.load(settings, now),
        required_replicas=ports.readings.published(settings, REQUIRED_REPLICAS, now),
    )


def load_reasons(ports: Ports, settings: ClusterSettings, observation: Observation) -> list[str]:
    """What the load says against one replica fewer."""
    return guard_load(load_evidence(ports, settings), observation, settings)
