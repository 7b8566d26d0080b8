"""What a build asks of the region's initialization rate: how much, for how long, and what waiting is worth. Pure.

EBS user guide, "Initialize Amazon EBS volumes": snapshot data / rate, the average rate within 10 % of it 99 % of the
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from peaker.domain.limits.admission import Admission
from peaker.domain.limits.reservations import Wanted
from peaker.domain.planning.lead_time import MIB
from peaker.domain.planning.methods.choice import MethodChoice
from peaker.domain.planning.methods.situation import GIB, MethodName
from peaker.domain.planning.plan import LeadTimeEstimate, PlannedVolume, Way
from peaker_contract.steps import Part

# One in a hundred is later than AWS's 10 %.
_SLOWER_THAN_PROMISED = 1.2
_LATE_SECONDS = 60.0
# Before the volumes are there their bytes, and when they are made, are predictions: the reservation begins earlier and
# ends later than these say.
_EARLY, _LATE = 0.7, 1.5
# From the launch to the volumes where nothing was predicted: the plan refuses then, or has no sizes to go by.
_UNTIL_VOLUMES_SECONDS = 600.0
# Nobody waits for longer for what is only quicker: with 30 minutes the largest waited ten times as long as the usual
# one, and fewer builds had a rate at all (bench/scale, simulation).
MOST_PATIENCE_SECONDS = 300.0


def rate_of(rates: Mapping[str, int | None]) -> float:
    """MiB/s of all volumes together."""
    return float(sum(rate or 0 for rate in rates.values()))


def rates_of(volumes: Sequence[PlannedVolume]) -> dict[str, int | None]:
    """The planned rates by name."""
    return {one.name: one.initialization_rate_mib_per_s for one in volumes}


def with_rates(
    volumes: Sequence[PlannedVolume], rates: Mapping[str, int | None]
) -> tuple[PlannedVolume, ...]:
    """The volumes at these rates; one that they do not name stays as it is."""
    return tuple(
        one.model_copy(update={"initialization_rate_mib_per_s": rates[one.name]})
        if one.name in rates
        else one
        for one in volumes
    )


def seconds_in_use(bytes_by_name: Mapping[str, float], rates: Mapping[str, int | None]) -> float:
    """For how long volumes that are made now use their rates, at most."""
    times = [bytes_by_name[name] / (rate * MIB) for name, rate in rates.items() if rate]
    return max(times, default=0.0) * _SLOWER_THAN_PROMISED + _LATE_SECONDS


def rate_wanted(
    run_id: str,
    cluster: str,
    volumes: Sequence[PlannedVolume],
    lead_time: LeadTimeEstimate | None,
    choice: MethodChoice | None,
    slot: datetime,
) -> Wanted:
    """What a build of these volumes asks for that may start at `slot`, before anything of it is made.

    The rate is in use from the creation of the volumes on: while the snapshots are copied and the instance starts it is
    others'.
    """
    parts = {} if lead_time is None else lead_time.parts
    whole = seconds_in_use({one.name: one.size_gib * GIB for one in volumes}, rates_of(volumes))
    begun = max(parts.get(Part.SNAPSHOT, 0.0), parts.get(Part.INSTANCE, 0.0)) + parts.get(Part.STORAGE, 0.0)
    until_volumes = begun or _UNTIL_VOLUMES_SECONDS
    ends_after = _LATE * (until_volumes + min(parts.get(Part.HYDRATION) or whole, whole)) + _LATE_SECONDS
    return Wanted(
        run_id=run_id,
        cluster=cluster,
        amount=rate_of(rates_of(volumes)),
        start_seconds=_EARLY * until_volumes,
        hold_seconds=ends_after - _EARLY * until_volumes,
        not_before=slot,
        patience_seconds=patience_seconds(choice),
    )


def patience_seconds(choice: MethodChoice | None) -> float:
    """What the rate saves in 9 of 10 cases: to wait for longer would be slower than to go without."""
    if choice is None:
        return 0.0
    p90 = {one.name: one.p90_seconds for one in choice.methods}
    rated = p90.get(MethodName.PROVISIONED_RATE)
    without = [p90.get(name) for name in (MethodName.USED_BLOCKS, MethodName.HOT_FIRST)]
    known = [one for one in without if one is not None]
    if rated is None or not known:
        return 0.0
    return min(MOST_PATIENCE_SECONDS, max(0.0, min(known) - rated))


def delayed(way: Way, admission: Admission, step_seconds: float = 0.0) -> Way:
    """The way with the wait in its lead time, in place of what past runs waited as a rule.

    `step_seconds` is what the step takes that has nothing to wait for: no past run was quicker.
    """
    wait = round(admission.wait_seconds + step_seconds, 1)
    lead = None if way.lead_time is None else _waiting(way.lead_time, wait)
    return way.model_copy(update={"lead_time": lead, "admission": admission})


def _waiting(lead: LeadTimeEstimate, wait_seconds: float) -> LeadTimeEstimate:
    """The wait is known, so it is the same in 9 of 10 cases."""
    longer = wait_seconds - lead.parts.get(Part.RESERVATION, 0.0)
    wait = {Part.RESERVATION.value: wait_seconds}
    return LeadTimeEstimate(
        seconds=round(lead.seconds + longer, 1),
        parts={**lead.parts, **wait},
        p90_seconds=None if lead.p90_seconds is None else round(lead.p90_seconds + longer, 1),
        p90_parts={**lead.p90_parts, **wait},
    )
