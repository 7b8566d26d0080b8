"""How each replica of a plan comes into service: built or returned; by the settings, or for a deadline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from peaker.domain.planning.lead_time import LeadTime, LeadTimeInputs, predict_return
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.choice import (
    MethodChoice,
    build_by_settings,
    by_settings,
    choose,
)
from peaker.domain.planning.methods.situation import MethodEstimate, MethodName, Situation
from peaker.domain.planning.methods.timing import LeadTimeFrame
from peaker.domain.planning.parking import Build, Method, choose_method, parked_seconds
from peaker.domain.planning.plan import LeadTimeEstimate, Way
from peaker.domain.planning.prices import PriceTable
from peaker.domain.replicas.fleet import FleetState
from peaker.ports import Ports
from peaker_contract.steps import Part


def best_method(
    ports: Ports,
    fleet: FleetState,
    inputs: LeadTimeInputs,
    past: PastSteps,
    lead: LeadTime,
    prices: PriceTable,
    situation: Situation,
    taken: Collection[str],
) -> Method:
    """Build, or return a parked replica that is none of those `taken` by other members of the batch, which are not in
    the situation either. `lead` is the prediction of a build."""
    now, build = ports.clock.now(), _anew(situation, lead)
    return choose_method(fleet, ports.environment, prices, inputs, past, now, build, taken)


def _anew(situation: Situation, lead: LeadTime) -> Build:
    """As the plan's table has it, which knows what the instance carries; the prediction where no volume is known."""
    found = build_by_settings(situation)
    if not found.possible or found.p50_seconds is None:
        return Build(lead.p50_seconds, None)
    return Build(found.p50_seconds, found.usd)


def beside(situation: Situation, taken: Collection[str], members: int) -> Situation:
    """The situation of one of so many members: those `taken` are not parked for it, the region's rate is shared."""
    return replace(
        situation,
        parked=tuple(one for one in situation.parked if one.instance_id not in taken),
        rate_quota_mib_per_s=situation.rate_quota_mib_per_s / members,
    )


def way_of(
    ports: Ports,
    fleet: FleetState,
    situation: Situation,
    method: Method,
    lead: LeadTime,
    inputs: LeadTimeInputs,
    past: PastSteps,
) -> Way:
    """By `method` and the settings without a deadline; with one by the cheapest method that is in time."""
    if situation.ready_by is None:
        choice = by_settings(situation, method.replica if method.comes_back else None)
    else:
        choice = choose(situation)
        method = _as_chosen(method, choice, fleet, ports)
    taken = choice.taken
    if method.action == "return":
        back = predict_return(inputs, _behind(fleet, method, ports), past)
        return Way(method=method, lead_time=estimated(back), choice=choice)
    if taken is None:
        return Way(method=method, lead_time=estimated(lead), choice=choice)
    return Way(
        method=method,
        lead_time=estimated(lead, situation.frame, taken),
        choice=choice,
        rates_mib_per_s={} if situation.ready_by is None else taken.rates_mib_per_s,
    )


def _as_chosen(method: Method, choice: MethodChoice, fleet: FleetState, ports: Ports) -> Method:
    """Build or return, as the choice says; the figures of the other way stay."""
    taken = choice.taken
    if taken is None or taken.name is not MethodName.RETURN or taken.replica is None:
        return method.model_copy(update={"action": "build", "reason": choice.reason})
    back = method.model_copy(update={"action": "return", "reason": choice.reason, "replica": taken.replica})
    hours = round(_behind(fleet, back, ports) / 3600, 2)
    seconds = None if taken.p50_seconds is None else round(taken.p50_seconds, 1)
    usd = None if taken.usd is None else round(taken.usd, 4)
    return back.model_copy(update={"return_seconds": seconds, "return_usd": usd, "parked_hours": hours})


def estimated(
    lead: LeadTime, frame: LeadTimeFrame | None = None, taken: MethodEstimate | None = None
) -> LeadTimeEstimate:
    """The prediction as the plan carries it; of a method that was chosen, with its own hydration and catch-up."""
    parts = {part.name: round(part.p50_seconds, 1) for part in lead.components}
    slow = {part.name: round(part.p90_seconds, 1) for part in lead.components}
    whole = LeadTimeEstimate(
        seconds=round(lead.p50_seconds, 1),
        parts=parts,
        p90_seconds=round(lead.p90_seconds, 1),
        p90_parts=slow,
    )
    if frame is None or taken is None or taken.warm_seconds is None or not taken.possible:
        return whole
    own = _own(taken, taken.warm_seconds, frame.catch_up(taken.warm_seconds))
    own_slow = _own(taken, taken.warm_p90_seconds, frame.catch_up_p90(taken.warm_seconds))
    return LeadTimeEstimate(
        seconds=round(taken.p50_seconds or 0.0, 1),
        parts={**parts, **own},
        p90_seconds=round(taken.p90_seconds or 0.0, 1),
        p90_parts={**slow, **own_slow},
    )


def _own(taken: MethodEstimate, hydration_seconds: float | None, catch_up_seconds: float) -> dict[str, float]:
    """The parts that a method has of its own, as far as they are known."""
    known = {Part.HYDRATION.value: hydration_seconds, Part.CATCH_UP.value: catch_up_seconds}
    return {name: round(seconds, 1) for name, seconds in known.items() if seconds is not None}


def _behind(fleet: FleetState, method: Method, ports: Ports) -> float:
    parked = None if method.replica is None else fleet.replica(method.replica)
    return 0.0 if parked is None else parked_seconds(parked, ports.clock.now())
