"""PlanScaleOut: what will be built, where, for how much, in what time; or every reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from peaker.domain.planning.first_snapshots import first_set_note
from peaker.domain.planning.lead_time import (
    LeadTime,
    LeadTimeInputs,
    PastSteps,
    predict_lead_time,
    predict_return,
)
from peaker.domain.planning.methods.choice import MethodChoice, by_settings, choose
from peaker.domain.planning.methods.situation import MethodEstimate, MethodName
from peaker.domain.planning.methods.timing import LeadTimeFrame
from peaker.domain.planning.parking import Method, choose_method, parked_seconds
from peaker.domain.planning.plan import LeadTimeEstimate, Refusal, ScaleOutPlan, as_document
from peaker.domain.planning.plan import plan_scale_out as decide_plan
from peaker.domain.planning.prices import PriceTable
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.donor import choose_donor, data_volumes
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.runs.run import PlanStep, Summary
from peaker.domain.storage.snapshot_sets import stored_gib
from peaker.ports import Ports
from peaker.usecases.plan.check_shortage import why_not_short
from peaker.usecases.plan.cluster_prices import prices_for_plan
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs, snapshot_history
from peaker.usecases.plan.method_situation import instance_promise, method_situation
from peaker.usecases.plan.plan_checks import plan_checks
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import NoShortage, ResourceNotFound, ScaleOutRefused
from peaker_contract.metrics import Metric
from peaker_contract.steps import Part


class Planned(Summary):
    """The plan, whole: it is the output of plan mode."""

    plan: dict[str, Any]


def plan_scale_out(ports: Ports, step: PlanStep) -> Planned:
    """In act mode raises ScaleOutRefused, or NoShortage when an automatic run has nothing to build.

    Without a fencing token it writes nothing and returns the plan with its refusals.
    """
    settings = ports.clusters.settings(step.cluster)
    fleet = gather_fleet(ports, settings, with_volumes=True)
    plan = _with_keys(ports, settings, fleet, _decide(ports, step, settings, fleet))
    plan = _with_first_set(ports, settings, plan)
    if step.fencing_token is None:
        return Planned(text=_text(plan), plan=as_document(plan))
    if step.trigger.kind != "manual" and (why := why_not_short(ports, settings, step.trigger, fleet)):
        raise NoShortage(why)
    if plan.refusals:
        raise ScaleOutRefused(f"{step.cluster}: {plan.refusal_text}")
    ports.ledger.settle(holder_of(step), plan)
    return Planned(text=_text(plan), plan=as_document(plan), numbers=_numbers(plan))


def _decide(ports: Ports, step: PlanStep, settings: ClusterSettings, fleet: FleetState) -> ScaleOutPlan:
    past = ports.past_runs.past_steps(settings.name)
    history = snapshot_history(ports, settings, fleet)
    # What started the run has passed when it is planned.
    inputs = replace(lead_time_inputs(settings, fleet, past, history), trigger_seconds=0.0)
    prices = prices_for_plan(ports, settings)
    lead = predict_lead_time(inputs, past)
    build = _plan(ports, step, settings, fleet, _estimated(lead), None, prices)
    method = _method(ports, fleet, inputs, past, build, prices)
    build = build.model_copy(update={"method": method})
    promise = instance_promise(ports, settings.instance_type)
    situation = method_situation(
        ports, settings, fleet, inputs, past, build, prices, promise, history, step.ready_by
    )
    if step.ready_by is None:
        choice = by_settings(situation, method.replica if method.action == "return" else None)
    else:
        choice = choose(situation)
        method = _as_chosen(method, choice, fleet, ports)
    taken = choice.taken
    if method.action == "return":
        back = predict_return(inputs, _behind(fleet, method, ports), past)
        plan = _plan(ports, step, settings, fleet, _estimated(back), method, prices)
    elif step.ready_by is None or taken is None:
        plan = build
    else:
        estimate = _estimated(lead, situation.frame, taken)
        rates = taken.rates_mib_per_s
        plan = _plan(ports, step, settings, fleet, estimate, None, prices, rates)
        plan = plan.model_copy(update={"method": method})
    plan = plan.model_copy(update={"comparison": choice})
    checks = plan_checks(ports, settings, fleet, plan, past, prices, promise)
    refused = [
        Refusal(code="check", reason=f"{one.name}: {one.detail}; {one.remedy}")
        for one in checks
        if one.refuses
    ]
    return plan.model_copy(update={"checks": checks, "refusals": (*plan.refusals, *refused)})


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


def _estimated(
    lead: LeadTime, frame: LeadTimeFrame | None = None, taken: MethodEstimate | None = None
) -> LeadTimeEstimate:
    """The prediction as the plan carries it; of a method that was chosen, with its own hydration and catch-up."""
    parts = {part.name: round(part.p50_seconds, 1) for part in lead.components}
    if frame is None or taken is None or taken.warm_seconds is None or taken.p50_seconds is None:
        return LeadTimeEstimate(seconds=round(lead.p50_seconds, 1), parts=parts)
    parts[Part.HYDRATION] = round(taken.warm_seconds, 1)
    parts[Part.CATCH_UP] = round(frame.catch_up(taken.warm_seconds), 1)
    return LeadTimeEstimate(seconds=round(taken.p50_seconds, 1), parts=parts)


def _with_keys(
    ports: Ports, settings: ClusterSettings, fleet: FleetState, plan: ScaleOutPlan
) -> ScaleOutPlan:
    """The plan with a refusal for each key that EC2 or EBS could not use: they would tell nobody before the run fails.

    A replica that returns boots from its own root volume, which is among its volumes.
    """
    like = fleet.replica(plan.returns or plan.donor or "")
    places: dict[str, list[str]] = {}
    for one in () if like is None else like.volumes:
        if one.kms_key_id and like is not None:
            places.setdefault(one.kms_key_id, []).append(f"the volumes of {like.instance_id} are")
    found, notes = [], list(plan.notes)
    if plan.returns is None:
        image = f"image_id {settings.image_id}"
        try:
            keys = ports.compute.image_keys(settings.image_id)
        except ResourceNotFound as error:
            keys = []
            found.append(Refusal(code="image", reason=f"{image} cannot be launched: {error}"))
        if isinstance(keys, Unknown):
            notes.append(f"the key of {image} is unknown: {keys.why}")
        else:
            for key in keys:
                places.setdefault(key, []).append(f"{image} is")
    found += [
        Refusal(code="key", reason=f"{' and '.join(dict.fromkeys(where))} under {key}: {why}")
        for key, where in sorted(places.items())
        if (why := ports.volume_keys.why_not_usable(key, settings)) is not None
    ]
    return plan.model_copy(update={"refusals": (*plan.refusals, *found), "notes": tuple(notes)})


def _with_first_set(ports: Ports, settings: ClusterSettings, plan: ScaleOutPlan) -> ScaleOutPlan:
    """The plan with what it costs to take a set before the first run, where one is to come."""
    observing = ports.readings.published(settings, Metric.OBSERVING, ports.clock.now())
    hourly = plan.price.snapshots_hourly
    note = first_set_note(
        settings,
        observing,
        ports.ledger.snapshot_sets(settings.name),
        plan.price.snapshots_gib,
        Unknown("no price is known") if hourly is None else Known(hourly),
    )
    return plan if note is None else plan.model_copy(update={"notes": (*plan.notes, note)})


def _plan(
    ports: Ports,
    step: PlanStep,
    settings: ClusterSettings,
    fleet: FleetState,
    lead: LeadTimeEstimate,
    method: Method | None,
    prices: PriceTable,
    rates: Mapping[str, int | None] | None = None,
) -> ScaleOutPlan:
    now = ports.clock.now()
    lease = ports.lease.current(step.cluster, now)
    return decide_plan(
        fleet,
        settings,
        prices,
        now,
        count=step.count,
        lease=None if lease is None or lease.run_id == step.run_id else lease,
        lead_time=lead,
        method=method,
        kept_gib=_kept_gib(ports, settings, fleet),
        rates=rates,
    )


def _kept_gib(ports: Ports, settings: ClusterSettings, fleet: FleetState) -> float:
    """What kept snapshot sets store after the run: at most all of the donor's volumes."""
    if not settings.snapshots.keep:
        return 0.0
    choice = choose_donor(fleet, settings)
    planned = 0.0
    if choice.donor is not None:
        planned = float(sum(one.size_gib for one in data_volumes(choice.donor, settings).values()))
    donor = None if choice.donor is None else choice.donor.instance_id
    return stored_gib(ports.ledger.snapshot_sets(settings.name), donor, planned)


def _method(
    ports: Ports,
    fleet: FleetState,
    inputs: LeadTimeInputs,
    past: PastSteps,
    build: ScaleOutPlan,
    prices: PriceTable,
) -> Method:
    """Build, or return a parked replica."""
    hourly, once, lead = build.price.hourly, build.price.once, build.lead_time
    usd = None
    if hourly is not None and once is not None and lead is not None:
        usd = round(once + hourly * lead.seconds / 3600, 4)
    now = ports.clock.now()
    return choose_method(fleet, ports.environment, prices, inputs, past, now, usd)


def _behind(fleet: FleetState, method: Method, ports: Ports) -> float:
    parked = None if method.replica is None else fleet.replica(method.replica)
    return 0.0 if parked is None else parked_seconds(parked, ports.clock.now())


def _text(plan: ScaleOutPlan) -> str:
    if plan.refusals:
        return f"refused: {plan.refusal_text}"
    if plan.returns is not None:
        return f"return {plan.returns} at {_at(plan)}"
    zone = plan.zones[0] if plan.zones else "no zone"
    return f"build {plan.count} x {plan.instance_type} in {zone} from {plan.donor} at {_at(plan)}"


def _at(plan: ScaleOutPlan) -> str:
    return "an unknown price" if plan.price.hourly is None else f"${plan.price.hourly}/h"


def _numbers(plan: ScaleOutPlan) -> dict[str, Any]:
    return {
        "serving": plan.serving,
        "hourly_usd": plan.price.hourly,
        "lead_time_seconds": None if plan.lead_time is None else plan.lead_time.seconds,
        "method": None if plan.method is None else plan.method.action,
        "method_reason": None if plan.method is None else plan.method.reason,
        "size_gib": sum(volume.size_gib for volume in plan.volumes),
    }
