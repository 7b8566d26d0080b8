"""The ways in which one more replica can come into service, and which of them a run takes. Pure.

At most three: a parked replica returns, one is built at EBS's default rate, one is built at the settings' paid
initialization rate. The plan that a person asks for and the plan that a run carries out are made here alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from peaker.domain.document.plan import Choice, LeadTimeEstimate, Method, Option, Way
from peaker.domain.instants import seconds_between
from peaker.domain.planning.lead_time import LeadTime, predict_lead_time, predict_return, why_too_far_behind
from peaker.domain.planning.plan_decision import build_hourly
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.prices.price_table import total, usd
from peaker.domain.reading import Known, Reading
from peaker.domain.replicas.parked import not_returned, parked_seconds, returnable

# An option is in time when its p90, and this share of it, passes before the replica is to serve.
MARGIN = 0.1


def ways_of(facts: PlanFacts, count: int, ready_by: datetime | None) -> list[Way]:
    """How each of `count` replicas comes: parked ones return first, all others are built alike."""
    ways: list[Way] = []
    while len(ways) < count and (not ways or ways[-1].returns is not None):
        taken = frozenset(way.returns for way in ways if way.returns is not None)
        ways.append(_way(facts, taken, count - len(ways), ready_by))
    return [*ways, *[ways[-1]] * (count - len(ways))]


def _way(facts: PlanFacts, taken: Collection[str], members: int, ready_by: datetime | None) -> Way:
    """The next of so many `members`; the replicas `taken` return as other members."""
    found = [*_return(facts, taken), *(_builds(facts, members) if facts.donor_volumes else ())]
    rate = facts.settings.initialization_rate_mib_per_s
    if all(option.why_not is not None for option, _ in found):
        _, lead = _build(facts, rate)
        return Way(lead_time=estimated(lead), rate_mib_per_s=rate)
    options = tuple(option for option, _ in found)
    choice = choose(options, rate, facts.now, ready_by)
    option, lead = found[choice.index]
    return Way(
        method=Method(
            action=option.action,
            reason=choice.reason,
            replica=option.replica,
            rejected=not_returned(facts.fleet, facts.environment, facts.now),
        ),
        lead_time=estimated(lead),
        choice=choice,
        rate_mib_per_s=option.rate_mib_per_s,
    )


def _return(facts: PlanFacts, taken: Collection[str]) -> list[tuple[Option, LeadTime]]:
    """The parked replica that has the least to catch up; none where none can come back."""
    parked = returnable(facts.fleet, facts.environment, facts.now)
    free = [one for one in parked if one.instance_id not in taken]
    if not free:
        return []
    lead = predict_return(facts.inputs, parked_seconds(free[0], facts.now), facts.past)
    # Its volumes are paid for anyway.
    hourly = facts.prices.instance_hour(free[0].instance.instance_type)
    option = Option(
        action="return",
        p50_seconds=round(lead.p50_seconds, 1),
        p90_seconds=round(lead.p90_seconds, 1),
        usd=usd(_until_it_serves(hourly, lead), 4),
        replica=free[0].instance_id,
        why_not=why_too_far_behind(lead),
    )
    return [(option, lead)]


def _builds(facts: PlanFacts, members: int) -> list[tuple[Option, LeadTime]]:
    """A build at the default rate, and at the settings' rate; all members share the region's quota of it."""
    rate = facts.settings.initialization_rate_mib_per_s
    if rate is None:
        return [_build(facts, None)]
    wanted, quota = rate * len(facts.donor_volumes) * members, facts.region.mib_per_s
    why = f"it takes {wanted:,} MiB/s of the {quota:,.0f} of the region" if wanted > quota else None
    option, lead = _build(facts, rate)
    return [_build(facts, None), (option.model_copy(update={"why_not": why}), lead)]


def _build(facts: PlanFacts, rate: int | None) -> tuple[Option, LeadTime]:
    lead = predict_lead_time(replace(facts.inputs, paid_mib_per_s=float(rate or 0)), facts.past)
    rates = (facts.prices.initialization(one.size_gib, rate) for one in facts.donor_volumes.values())
    option = Option(
        action="build",
        p50_seconds=round(lead.p50_seconds, 1),
        p90_seconds=round(lead.p90_seconds, 1),
        usd=usd(total((*rates, _until_it_serves(build_hourly(facts), lead))), 4),
        rate_mib_per_s=rate,
    )
    return option, lead


def _until_it_serves(hourly: Reading, lead: LeadTime) -> Reading:
    return Known(hourly.value * lead.p50_seconds / 3600) if isinstance(hourly, Known) else hourly


def choose(options: Sequence[Option], rate: int | None, now: datetime, ready_by: datetime | None) -> Choice:
    """The option that a run takes; one of them at least is possible. `rate` is the settings'.

    With a deadline the cheapest that is in time, an unknown price being the dearest, or else the quickest. Without one
    a build at the settings' rate, or the parked replica that is back before it.
    """
    possible = [one for one in options if one.why_not is None]
    if ready_by is None:
        taken = _by_settings(possible, rate)
        return Choice(options=tuple(options), index=options.index(taken), reason=_reason(options, taken))
    left = seconds_between(now, ready_by)
    in_time = [one for one in possible if one.p90_seconds * (1 + MARGIN) <= left]
    taken = min(in_time or possible, key=lambda one: (_price(one) if in_time else 0.0, one.p90_seconds))
    how = "the cheapest of those that are" if in_time else "the quickest; none is"
    return Choice(
        options=tuple(options),
        index=options.index(taken),
        reason=f"{how} ready in time with {MARGIN:.0%} to spare",
        ready_by=ready_by,
        in_time=bool(in_time),
    )


def _price(option: Option) -> float:
    return math.inf if option.usd is None else option.usd


def _by_settings(possible: Sequence[Option], rate: int | None) -> Option:
    builds = [one for one in possible if one.action == "build"]
    built = next((one for one in builds if one.rate_mib_per_s == rate), builds[0] if builds else None)
    returns = [one for one in possible if one.action == "return"]
    sooner = [one for one in returns if built is None or one.p50_seconds < built.p50_seconds]
    return sooner[0] if sooner or built is None else built


def _reason(options: Sequence[Option], taken: Option) -> str:
    """The return and the build that it is compared with."""
    back = next((one for one in options if one.action == "return"), None)
    built = (
        taken
        if taken.action == "build"
        else next((one for one in reversed(options) if one is not back), None)
    )
    if back is None or built is None:
        return "no replica is parked" if back is None else "no donor shows how long a build takes"
    times = [f"{one.p50_seconds / 60:.0f} min" for one in (back, built)]
    shown = f"{back.replica} is back in {times[0]}, one built anew in {times[1]}"
    return shown if taken is back else f"{shown}: {back.why_not or 'building is as quick'}"


def estimated(lead: LeadTime) -> LeadTimeEstimate:
    return LeadTimeEstimate(
        seconds=round(lead.p50_seconds, 1),
        parts={part.name: round(part.p50_seconds, 1) for part in lead.components},
        p90_seconds=round(lead.p90_seconds, 1),
        p90_parts={part.name: round(part.p90_seconds, 1) for part in lead.components},
    )
