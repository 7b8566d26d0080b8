"""Which share of a peer's reads each replica takes, from the reads that check_replicas publishes of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from peaker.domain.instants import seconds_between
from peaker.domain.issued import CheckState
from peaker.domain.planning.needed_replicas import FleetCounts
from peaker.domain.planning.taken_reads import (
    COMPARED_MINUTES,
    counted_less,
    shares_of_reads,
    usual_reads,
)
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState, Replica, ReplicaState
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings

_LOOKS = 3


def reads_taken(ports: Ports, settings: ClusterSettings, fleet: FleetState) -> dict[str, Reading]:
    """The shares of those that serve. Raises Throttled, AwsUnavailable.

    The reads are published whatever the load metric is. One in its ramp, one that joined within the time that is
    compared, and one that drains is not compared.
    """
    now = fleet.gathered_at
    shares: dict[str, Reading] = {}
    reads: dict[str, Reading] = {}
    for one in fleet.serving:
        why = _why_not_compared(one, now)
        if why is None:
            reads[one.instance_id] = _reads(ports, settings, one.instance_id, now)
        else:
            shares[one.instance_id] = Unknown(why)
    return shares | shares_of_reads(reads, settings.ramp.least_queries / settings.ramp.window_seconds)


def with_shares(counts: FleetCounts, state: CheckState, shares: dict[str, Reading]) -> FleetCounts:
    """The counts with the share of the reads that each takes, and what those count as that take few."""
    known = {name: one.value for name, one in shares.items() if isinstance(one, Known)}
    return replace(counts, few_reads=counted_less(state, shares), read_shares=known)


def _why_not_compared(replica: Replica, now: datetime) -> str | None:
    row = replica.ledger_row
    if row is None:
        return None
    if row.state is not ReplicaState.IN_SERVICE:
        return f"it is {row.state.value} by the ledger"
    minutes = seconds_between(row.changed_at, now) / 60
    if minutes < COMPARED_MINUTES:
        return f"it serves for {minutes:.0f} min and is compared after {COMPARED_MINUTES:g}"
    return None


def _reads(ports: Ports, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
    every = settings.health.check_minutes
    minutes = max(COMPARED_MINUTES, float(_LOOKS * every))
    since = now - timedelta(minutes=minutes)
    return usual_reads(
        ports.readings.reads_per_second(settings, instance_id, since, now), round(minutes / every)
    )
