"""Retirement chooses the replica that leaves service, and decides whether it may (I1 to I4, I8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from peaker.domain.host_results import DrainReport
from peaker.domain.instants import in_words, seconds_between
from peaker.domain.reading import Known, Reading, Unknown, describe
from peaker.domain.replicas.donor import Verdict
from peaker.domain.replicas.fleet import FleetState, Replica, ReplicaState
from peaker.domain.replicas.inventory import Instance, TargetHealth
from peaker.domain.replicas.parked import why_expired
from peaker.domain.runs.ledger import RunPart
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import OWNER_TAG, RUN_TAG

QUIET_SECONDS = 120.0


class Quiet(RunPart):
    """Since when every sample has found no client, and how many client statements had run by then (None: unknown)."""

    ledger_name = "quiet"

    since: datetime
    client_statements: int | None

    def seconds(self, now: datetime) -> float:
        return seconds_between(self.since, now)


def quiet_after(before: Quiet | None, sample: DrainReport, now: datetime) -> Quiet:
    """Returns the quiet that goes on with this sample, or a new one because a client is or was connected."""
    if before is None or not sample.is_idle or sample.client_statements != before.client_statements:
        return Quiet(since=now, client_statements=sample.client_statements)
    return before


_REMOVABLE = frozenset(
    {ReplicaState.IN_SERVICE, ReplicaState.DRAINING, ReplicaState.PARKED, ReplicaState.BUILDING}
)
# What a dead run left goes only when it is asked for by name.
_LEFT_BEHIND = frozenset({ReplicaState.BUILDING, ReplicaState.DRAINING})


@dataclass(frozen=True)
class LoadEvidence:
    """Measured load in load-metric units, and the replicas that load and forecast need within the lead time (I8)."""

    measured: Reading
    required_replicas: Reading


@dataclass(frozen=True)
class RetirementChoice:
    """The replicas to retire, in the order in which they were chosen, and a verdict for each of the fleet."""

    replicas: tuple[Replica, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def replica(self) -> Replica | None:
        """The first to go."""
        return next(iter(self.replicas), None)

    @property
    def text(self) -> str:
        if not self.verdicts:
            return "the cluster has no replica"
        return "; ".join(f"{verdict.instance_id}: {verdict.reason}" for verdict in self.verdicts)


def choose_idle_replica(
    fleet: FleetState,
    wanted: str | None = None,
    hourly_usd: Mapping[str, float | None] | None = None,
    load: Reading | None = None,
) -> RetirementChoice:
    """The replica to take away, of those that Peaker made; with `wanted`, that one or none.

    Order: expired parked replicas; then, in the zone with the most replicas, the dearest per query served; of equals
    the newest, since the older ones are proven longer. A parked replica that is valid goes only when it is asked for.
    `hourly_usd` is what each costs; without a measurement of its own each is taken to serve an equal share of `load`.
    """
    usd = hourly_usd or {}
    judged = [(one, _judge(one, fleet, wanted, usd.get(one.instance_id), load)) for one in fleet.replicas]
    eligible = [one for one, verdict in judged if verdict.eligible]
    chosen = min(eligible, key=lambda one: _rank(one, fleet, usd), default=None)
    verdicts = [_ranked(verdict, chosen) for _, verdict in judged if wanted in (None, verdict.instance_id)]
    if wanted is not None and not verdicts:
        verdicts = [Verdict(wanted, False, _foreign(wanted, fleet))]
    return RetirementChoice(() if chosen is None else (chosen,), tuple(verdicts))


def _foreign(wanted: str, fleet: FleetState) -> str:
    source = fleet.source
    if isinstance(source, Instance) and source.instance_id == wanted:
        return f"is the source of {fleet.cluster}; the source is never retired (I2)"
    return f"is not a replica of {fleet.cluster}; only its own peak replicas may go (I1)"


def _rank(replica: Replica, fleet: FleetState, usd: Mapping[str, float | None]) -> tuple[Any, ...]:
    """Smallest goes first."""
    return (
        not replica.is_parked,
        -fleet.by_zone[replica.instance.zone],
        -(usd.get(replica.instance_id) or 0.0),
        -replica.instance.launched_at.timestamp(),
        replica.instance_id,
    )


def _ranked(verdict: Verdict, chosen: Replica | None) -> Verdict:
    if not verdict.eligible or chosen is None or verdict.instance_id == chosen.instance_id:
        return verdict
    why = f"{verdict.reason}; {chosen.instance_id} goes before it: expired first, then fullest zone, price, newest"
    return replace(verdict, reason=why)


def _judge(
    replica: Replica,
    fleet: FleetState,
    wanted: str | None,
    usd: float | None,
    load: Reading | None,
) -> Verdict:
    numbers = {
        "zone": replica.instance.zone,
        "replicas_in_zone": fleet.by_zone[replica.instance.zone],
        "hourly_usd": usd,
        "usd_per_load_unit_hour": _price_per_load(usd, load, len(fleet.serving)),
        "age_hours": round(seconds_between(replica.instance.launched_at, fleet.gathered_at) / 3600, 2),
    }
    reason = _why_not(replica, fleet, wanted)
    if reason is not None:
        return Verdict(replica.instance_id, False, reason, numbers)
    return Verdict(replica.instance_id, True, _why(replica, fleet, numbers), numbers)


def _price_per_load(usd: float | None, load: Reading | None, serving: int) -> float | None:
    if usd is None or not isinstance(load, Known) or load.value <= 0 or serving == 0:
        return None
    return usd * serving / load.value


def _why_not(replica: Replica, fleet: FleetState, wanted: str | None) -> str | None:
    if wanted is not None and replica.instance_id != wanted:
        return f"not the one that was asked for ({wanted})"
    if replica.is_base:
        return "is base load, permanent; only what Peaker made may go (I1)"
    row = replica.ledger_row
    if not replica.is_ours or row is None:
        return "not made by Peaker: owner tag and ledger row do not both say so (I1)"
    if replica.is_parked:
        if wanted == replica.instance_id or _expired(replica, fleet) is not None:
            return None
        until = row.parking.until if row.parking is not None else None
        return f"parked until {in_words(until)}" if until is not None else "parked, without a limit"
    if replica.instance_id in fleet.at_work:
        return f"the ledger says {row.state.value}, and a run is at work on it"
    if row.state in _LEFT_BEHIND and wanted == replica.instance_id:
        return None
    if row.state is not ReplicaState.IN_SERVICE:
        return f"the ledger says {row.state.value}"
    return None


def _why(replica: Replica, fleet: FleetState, numbers: Mapping[str, Any]) -> str:
    if replica.is_parked:
        return f"parked, {_expired(replica, fleet) or 'asked for by name'}"
    if replica.ledger_row is not None and replica.ledger_row.state in _LEFT_BEHIND:
        return (
            f"{replica.ledger_row.state.value}, left behind by {replica.ledger_row.run_id}, asked for by name"
        )
    per_load = numbers["usd_per_load_unit_hour"]
    price = "price per query unknown" if per_load is None else f"${per_load:.6f} an hour per unit of load"
    return (
        f"peak replica in service, made by Peaker; {numbers['replicas_in_zone']} replicas in {numbers['zone']}, "
        f"{price}, {numbers['age_hours']:.1f} h old"
    )


def _expired(replica: Replica, fleet: FleetState) -> str | None:
    row = replica.ledger_row
    if row is None or row.parking is None:
        return None
    return why_expired(row.parking, fleet.gathered_at)


def serves_nobody(replica: Replica, lost_volumes: Sequence[str] = ()) -> bool:
    """Whether the replica is parked, or down for want of a volume, and known to be unhealthy at the endpoint.

    The row alone proves nothing: a person may have started a parked replica and registered it (I3, I4).
    """
    known = isinstance(replica.health, TargetHealth)
    return (replica.is_parked or bool(lost_volumes)) and known and not replica.is_serving


def guard_removal(
    replica: Replica | None,
    fleet: FleetState,
    settings: ClusterSettings,
    environment: str,
    lost_volumes: Sequence[str] = (),
) -> list[str]:
    """Reasons why this replica may not be taken away now; empty when it may (I1, I2, I3, I4).

    Called again immediately before each destructive call, on a fleet gathered afresh. `lost_volumes` are those that
    were made for it and are not attached to it.
    """
    if replica is None:
        return ["it is not among the cluster's instances any more, and what is unknown is held (I4)"]
    reasons = _ownership_reasons(replica, fleet, environment)
    source = fleet.source
    if isinstance(source, Unknown):
        reasons.append(f"the source is unknown: {source.why}; what is unknown is held (I4)")
    elif source.instance_id == replica.instance_id:
        reasons.append("it is the source, which is never retired (I2)")
    if serves_nobody(replica, lost_volumes):
        return reasons
    unknown = [one for one in fleet.replicas if not isinstance(one.health, TargetHealth)]
    reasons += [
        f"the health of {one.instance_id} is {one.health_text}; what is unknown is held (I4)"
        for one in unknown
    ]
    return reasons + _floor_reasons(_others_staying(fleet, replica.instance_id), settings)


def _others_staying(fleet: FleetState, instance_id: str) -> int:
    return sum(one.instance_id != instance_id for one in fleet.staying)


def _floor_reasons(others: int, settings: ClusterSettings) -> list[str]:
    if others >= settings.min_replicas:
        return []
    return [f"{others} other replicas serve, fewer than min_replicas {settings.min_replicas} (I3)"]


def why_needed(
    load: LoadEvidence, fleet: FleetState, settings: ClusterSettings, instance_id: str
) -> list[str]:
    """Reasons why this replica is needed; empty while the others that stay suffice. What is unknown is one (I4)."""
    others = _others_staying(fleet, instance_id)
    return _floor_reasons(others, settings) + _load_reasons(load, others, settings)


def why_called_back(
    load: LoadEvidence, fleet: FleetState, settings: ClusterSettings, instance_id: str
) -> list[str]:
    """Reasons why a replica that drains is to serve again; empty while it may go on draining.

    Those that are registered again count, and those that go back before it: of several that drain no more than are
    needed serve again. Nothing is lost by an unknown but the time for which it has drained (I4).
    """
    others = len(fleet.returning) + fleet.back_before(instance_id) + _others_staying(fleet, instance_id)
    return _floor_reasons(others, settings) + _load_reasons(load, others, settings)


def _ownership_reasons(replica: Replica, fleet: FleetState, environment: str) -> list[str]:
    tags, row = replica.instance.tags, replica.ledger_row
    reasons: list[str] = []
    if replica.is_base:
        reasons.append("it is tagged as base load; only what Peaker made may go (I1)")
    if tags.get(OWNER_TAG) != environment:
        reasons.append(
            f"tag {OWNER_TAG} is {tags.get(OWNER_TAG)!r}, not {environment!r}; only what Peaker made may go (I1)"
        )
    if row is None:
        reasons.append("the ledger has no row for it; only what Peaker made may go (I1)")
    elif row.run_id != tags.get(RUN_TAG):
        reasons.append(
            f"the ledger's run {row.run_id} is not the tag's {tags.get(RUN_TAG)}; both must agree (I1)"
        )
    elif row.state not in _REMOVABLE:
        reasons.append(f"the ledger says {row.state.value}, which is not in service, draining or parked (I1)")
    elif row.state is ReplicaState.BUILDING and replica.instance_id in fleet.at_work:
        reasons.append("a run is building it (I6)")
    return reasons


def guard_load(
    load: LoadEvidence, fleet: FleetState, settings: ClusterSettings, instance_id: str
) -> list[str]:
    """Reasons why the load forbids that this replica goes; empty when it allows it (I4, I8).

    Counted are the others that stay: the replica itself may be deregistered already, and another may go beside it.
    """
    return _load_reasons(load, _others_staying(fleet, instance_id), settings)


def _load_reasons(load: LoadEvidence, remaining: int, settings: ClusterSettings) -> list[str]:
    capacity = remaining * settings.capacity_per_replica
    reasons: list[str] = []
    if isinstance(load.measured, Unknown):
        reasons.append(f"the measured load is {describe(load.measured)}; what is unknown is held (I4)")
    elif load.measured.value > capacity:
        reasons.append(
            f"the measured load {load.measured.value:g} exceeds {capacity:g}, what the {remaining} that remain "
            "serve (I8)"
        )
    if isinstance(load.required_replicas, Unknown):
        reasons.append(
            f"the forecast's need is {describe(load.required_replicas)}; what is unknown is held (I4)"
        )
    elif load.required_replicas.value > remaining:
        reasons.append(
            f"the forecast needs {load.required_replicas.value:g} replicas, {remaining} would remain (I8)"
        )
    return reasons


def activity_since(statements_before: int | None, sample: DrainReport) -> str | None:
    """Returns the clients' activity since the drain, as a sentence; None without any. An unread count is not 0 (I4)."""
    if sample.connections or sample.transactions:
        return f"{sample.connections} client connections, {sample.transactions} transactions after the drain"
    if statements_before is None or sample.client_statements is None:
        return "the host does not count client statements, so nobody knows whether it was used (I4)"
    if sample.client_statements != statements_before:
        return f"clients ran {sample.client_statements - statements_before} statements after the drain"
    return None


def guard_lifetime(replica: Replica, settings: ClusterSettings, now: datetime) -> list[str]:
    """Reasons why it is too young to go; its hydration was paid for limits.minimum_lifetime_minutes."""
    minutes = seconds_between(replica.instance.launched_at, now) / 60
    least = settings.limits.minimum_lifetime_minutes
    if minutes >= least:
        return []
    return [f"it is {minutes:.0f} min old, minimum_lifetime_minutes is {least}"]
