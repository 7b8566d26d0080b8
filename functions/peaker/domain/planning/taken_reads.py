"""Which share of a peer's reads each replica takes, and whether the load is covered by the reads that come. Pure.

Pools that keep their connections follow no weight of the read endpoint. Where a replica gets few reads, its peers
answer the rest, and are above their capacity before the fleet is by its number: it counts as its share.
That adds replicas and warns; it never takes one away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from peaker.domain.issued import CheckState
from peaker.domain.planning.needed_replicas import DecisionInputs, FleetCounts, Need
from peaker.domain.planning.scaling_policy import ScalingPolicy
from peaker.domain.reading import Known, Reading, Unknown

# Over so long reads are compared, and so long after its ramp a replica is compared at all.
COMPARED_MINUTES = 15.0
# Connections are dealt by chance, and a cluster's headroom is for that: from half of the busiest on it counts whole.
WHOLE_SHARE = 0.5
# So many looks in a row show that a replica takes fewer; one shows that it does not.
LOOKS_IN_A_ROW = 3
# A hair of a replica is no replica.
_HAIR = 1e-9


def usual_reads(points: Sequence[float], looks: int) -> Reading:
    """The median of a replica's reads a second; unknown where fewer than half of so many looks measured them."""
    if not points or len(points) < ceil(looks / 2):
        return Unknown(f"its reads are known of {len(points)} of the last {looks} looks")
    return Known(median(points))


def shares_of_reads(reads: Mapping[str, Reading], least_per_second: float) -> dict[str, Reading]:
    """Each replica's reads over those of the busiest, 0 to 1, by instance id.

    `reads` are those of the replicas past their ramp, which have one and the same weight at the endpoint. Held against
    the busiest, not the median: where most are newcomers, the median is one that few reads come to, and the peak passes
    the capacity of the busiest first. So one that was not heard makes no share smaller, and one other is enough. A
    replica alone has no share, and in a cluster that nobody reads (the busiest below `least_per_second`) none has.
    """
    known = {name: one.value for name, one in reads.items() if isinstance(one, Known)}
    busiest = max(known.values(), default=0.0)
    shares: dict[str, Reading] = {}
    for name, one in reads.items():
        if isinstance(one, Unknown):
            shares[name] = one
        elif len(known) < 2:
            shares[name] = Unknown("there is no other to compare it with")
        elif busiest < least_per_second:
            few = f"the busiest answers {busiest:.3g} reads a second, {least_per_second:.3g} are needed"
            shares[name] = Unknown(few)
        else:
            shares[name] = Known(one.value / busiest)
    return shares


def with_few_reads(
    state: CheckState, shares: Mapping[str, Reading], now_seconds: float, period_seconds: float
) -> CheckState:
    """The state with the looks in a row at which each replica took few reads.

    An unknown share ends the row, as a whole one does.
    """
    again = state.counted_already(now_seconds, period_seconds)
    looks = {
        name: max(1, state.few_reads.get(name, 0) + (0 if again else 1))
        for name, share in shares.items()
        if isinstance(share, Known) and share.value < WHOLE_SHARE
    }
    return replace(state, few_reads=looks)


def counted_less(state: CheckState, shares: Mapping[str, Reading]) -> dict[str, float]:
    """The share that a replica counts as, of those that count as less than a whole one."""
    return {
        name: share.value
        for name, share in shares.items()
        if isinstance(share, Known) and state.few_reads.get(name, 0) >= LOOKS_IN_A_ROW
    }


@dataclass(frozen=True)
class Uncovered:
    """Replicas to add because others get few reads, why, and the numbers; an alarm where more would not help."""

    added: int
    is_alarm: bool
    reason: str
    numbers: dict[str, float]


def uncovered_load(
    inputs: DecisionInputs, need: Need, missing: int, policy: ScalingPolicy
) -> Uncovered | None:
    """None while those that serve, by the reads that come to them, and those that come cover the load.

    `missing` replicas are added because of their number. No other is added while the newest takes few reads, or is too
    new to show its share: clients that keep their connections give the next one none either.
    """
    fleet = inputs.fleet
    if not fleet.few_reads:
        return None
    short = need.load_replicas - fleet.counted - fleet.building - missing
    if short <= _HAIR:
        return None
    worth = (
        f"those that serve count as {fleet.counted:.1f} of the {need.load_replicas:.1f} that the load takes"
    )
    counted = f"{_takers(fleet)}: {worth}"
    numbers = {"counted_replicas": fleet.counted, "load_replicas": need.load_replicas}
    not_added = numbers | {"uncovered_replicas": short}
    newest = max(
        fleet.peak_in_service_since, key=lambda name: fleet.peak_in_service_since[name], default=None
    )
    share = None if newest is None else fleet.read_shares.get(newest)
    if share is not None and share < WHOLE_SHARE:
        why = f"none is added for that, as the newest, {newest}, takes {share:.0%}: clients keep their connections"
        return Uncovered(0, True, f"{counted}; {why}", not_added)
    if fleet.building or (newest is not None and _is_young(inputs, newest)):
        why = f"none is added for that before the newest has served for {COMPARED_MINUTES:g} min"
        return Uncovered(0, False, f"{counted}; {why}", numbers)
    room = policy.max_replicas - (fleet.serving or 0) - missing
    wanted = ceil(short - _HAIR)
    if wanted <= room:
        return Uncovered(wanted, False, counted, numbers)
    why = f"max_replicas {policy.max_replicas} is the ceiling (I12)"
    return Uncovered(max(0, room), True, f"{counted}; {why}", not_added)


def kept_for_reads(fleet: FleetCounts, need: Need) -> tuple[int, str]:
    """How many stay so that the load is covered by the reads that come, and why; 0 while all count whole.

    Taken to go first are those that most reads come to: which of them goes is chosen later.
    """
    if not fleet.few_reads:
        return 0, ""
    shares = sorted((fleet.few_reads.get(name, 1.0) for name in fleet.peak_in_service_since), reverse=True)
    left, gone = fleet.counted, 0
    for share in shares:
        left -= share
        if left + _HAIR < need.load_replicas:
            break
        gone += 1
    return (fleet.serving or 0) - gone, f"the reads that come: {_takers(fleet)}"


def _takers(fleet: FleetCounts) -> str:
    return ", ".join(
        f"{name} takes {share:.0%} of a peer's reads" for name, share in sorted(fleet.few_reads.items())
    )


def _is_young(inputs: DecisionInputs, instance_id: str) -> bool:
    since = inputs.fleet.peak_in_service_since[instance_id]
    return inputs.now_seconds - since < 60.0 * COMPARED_MINUTES
