"""Which replica goes, and whether it may (I1 to I4, I8)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from peaker.domain.cluster import ClusterSettings
from peaker.domain.donor import Verdict
from peaker.domain.fleet import Observation, Replica, ReplicaState
from peaker.domain.instants import seconds_between
from peaker.domain.inventory import OWNER_TAG, RUN_TAG, TargetHealth
from peaker.domain.reading import Reading, Unknown, describe


@dataclass(frozen=True)
class LoadEvidence:
    """Observed load in load-metric units, and the replicas that load and forecast need within the lead time (I8)."""

    observed: Reading
    required_replicas: Reading


@dataclass(frozen=True)
class RetirementChoice:
    """The replica to retire, or None, and a verdict for each one."""

    replica: Replica | None
    verdicts: tuple[Verdict, ...]

    @property
    def text(self) -> str:
        if not self.verdicts:
            return "the cluster has no replica"
        return "; ".join(f"{verdict.instance_id}: {verdict.reason}" for verdict in self.verdicts)


def choose_idle_replica(observation: Observation, wanted: str | None = None) -> RetirementChoice:
    """The youngest peak replica in service that Peaker made; with `wanted`, that one or none.

    The youngest goes first: its price for hydration is sunk for all alike, and the older ones are proven longer.
    """
    judged = [(replica, _eligibility(replica, wanted)) for replica in observation.replicas]
    eligible = [replica for replica, verdict in judged if verdict.eligible]
    chosen = max(eligible, key=lambda one: (one.instance.launched_at, one.instance_id), default=None)
    verdicts = [verdict for _, verdict in judged]
    if wanted is not None and observation.replica(wanted) is None:
        verdicts.insert(0, Verdict(wanted, False, f"is not a replica of {observation.cluster}"))
    return RetirementChoice(chosen, tuple(verdicts))


def _eligibility(replica: Replica, wanted: str | None) -> Verdict:
    def no(reason: str) -> Verdict:
        return Verdict(replica.instance_id, False, reason)

    if wanted is not None and replica.instance_id != wanted:
        return no(f"not the one that was asked for ({wanted})")
    if replica.is_base:
        return no("base load, permanent")
    if not replica.is_ours or replica.ledger_row is None:
        return no("not made by Peaker: owner tag and ledger row do not both say so (I1)")
    if replica.ledger_row.state is not ReplicaState.IN_SERVICE:
        return no(f"the ledger says {replica.ledger_row.state.value}")
    return Verdict(replica.instance_id, True, "peak replica in service, made by Peaker")


def guard_removal(
    replica: Replica | None, observation: Observation, settings: ClusterSettings, environment: str
) -> list[str]:
    """Reasons why this replica may not be taken away now; empty when it may (I1, I2, I3, I4).

    Called again immediately before each destructive call, on a fresh observation.
    """
    if replica is None:
        return ["I4: the replica is not among the cluster's instances any more"]
    reasons = _ownership_reasons(replica, environment)
    source = observation.source
    if isinstance(source, Unknown):
        reasons.append(f"I4: the source is unknown ({source.why})")
    elif source.instance_id == replica.instance_id:
        reasons.append("I2: it is the source")
    unknown = [one for one in observation.replicas if not isinstance(one.health, TargetHealth)]
    reasons += [f"I4: health of {one.instance_id} is {one.health_text}" for one in unknown]
    others = [one for one in observation.serving if one.instance_id != replica.instance_id]
    if len(others) < settings.min_replicas:
        reasons.append(f"I3: {len(others)} other replicas serve, min_replicas is {settings.min_replicas}")
    return reasons


def _ownership_reasons(replica: Replica, environment: str) -> list[str]:
    tags, row = replica.instance.tags, replica.ledger_row
    reasons: list[str] = []
    if replica.is_base:
        reasons.append("I1: it is tagged as base load")
    if tags.get(OWNER_TAG) != environment:
        reasons.append(f"I1: tag {OWNER_TAG} is {tags.get(OWNER_TAG)!r}, not {environment!r}")
    if row is None:
        reasons.append("I1: the ledger has no row for it")
    elif row.run_id != tags.get(RUN_TAG):
        reasons.append(f"I1: the ledger's run {row.run_id} is not the tag's {tags.get(RUN_TAG)}")
    return reasons


def guard_load(load: LoadEvidence, observation: Observation, settings: ClusterSettings) -> list[str]:
    """Reasons why the load forbids one replica fewer; empty when it allows it (I4, I8)."""
    remaining = len(observation.serving) - 1
    capacity = remaining * settings.capacity_per_replica
    reasons: list[str] = []
    if isinstance(load.observed, Unknown):
        reasons.append(f"I4: the observed load is {describe(load.observed)}")
    elif load.observed.value > capacity:
        reasons.append(
            f"I8: the observed load {load.observed.value:g} exceeds {capacity:g}, "
            f"what the {remaining} that remain serve"
        )
    if isinstance(load.required_replicas, Unknown):
        reasons.append(f"I4: the forecast's need is {describe(load.required_replicas)}")
    elif load.required_replicas.value > remaining:
        reasons.append(
            f"I8: the forecast needs {load.required_replicas.value:g} replicas, {remaining} would remain"
        )
    return reasons


def guard_lifetime(replica: Replica, settings: ClusterSettings, now: datetime) -> list[str]:
    """Reasons why it is too young to go; its hydration was paid for limits.minimum_lifetime_minutes."""
    minutes = seconds_between(replica.instance.launched_at, now) / 60
    least = settings.limits.minimum_lifetime_minutes
    if minutes >= least:
        return []
    return [f"it is {minutes:.0f} min old, minimum_lifetime_minutes is {least}"]
