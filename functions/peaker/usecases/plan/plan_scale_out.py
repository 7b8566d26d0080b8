"""PlanScaleOut: what will be built, where, for how much, in what time; or every reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from peaker.domain.document.plan import Refusal, ScaleOutPlan, Way, as_document
from peaker.domain.limits.account_use import AccountUse
from peaker.domain.planning.above_limits import above_limits_page, passing_limits, refused_by_limits_alone
from peaker.domain.planning.capacity_order import Promises
from peaker.domain.planning.options import Situation, ways_of
from peaker.domain.planning.plan_decision import plan_scale_out as decide_plan
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.donor import DonorChoice, choose_donor, data_volumes
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.report.planned_calls import planned_calls
from peaker.domain.runs.batch import MOST_WANTED
from peaker.domain.runs.run import PlanStep, StepInput, Summary
from peaker.domain.storage.first_snapshots import first_set_note
from peaker.domain.storage.snapshot_sets import stored_gib
from peaker.ports.bundle import Ports
from peaker.usecases.plan.account_use import account_use, initialization_rate_of_region
from peaker.usecases.plan.check_shortage import missing_replicas, why_not_short
from peaker.usecases.plan.cluster_prices import prices_for_plan
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.instance_promises import instance_promise
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs, snapshot_history
from peaker.usecases.plan.plan_checks import plan_checks
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import (
    AwsCallRejected,
    NoShortage,
    OperatorsUnreachable,
    ResourceNotFound,
    ScaleOutRefused,
)
from peaker_contract.metrics import Metric


class Planned(Summary):
    """The plan, whole: it is the output of plan mode."""

    plan: dict[str, Any]


def plan_scale_out(ports: Ports, step: PlanStep) -> Planned:
    """In act mode raises ScaleOutRefused, or NoShortage when an automatic run has nothing to build.

    Without a fencing token it writes nothing and returns the plan with its refusals.
    """
    settings = ports.clusters.settings(step.cluster)
    fleet = possible_donors(ports, settings)
    plan = _as_many_as_missing(ports, step, settings, fleet)
    plan = _with_first_set(ports, settings, plan)
    if step.fencing_token is None:
        return Planned(text=plan_text(plan), plan=as_document(plan))
    if step.trigger.kind != "manual" and (why := why_not_short(ports, settings, step.trigger, fleet)):
        raise NoShortage(why)
    if plan.refusals:
        raise ScaleOutRefused(
            f"{step.cluster}: {plan.refusal_text}{_told(ports, step, settings, fleet, plan)}"
        )
    ports.ledger.settle(holder_of(step), plan)
    return Planned(text=plan_text(plan), plan=as_document(plan), numbers=_numbers(plan))


def _told(
    ports: Ports, step: PlanStep, settings: ClusterSettings, fleet: FleetState, plan: ScaleOutPlan
) -> str:
    """Pages the operators with the input that starts the run above its limits; the same in words for the refusal.

    Empty where a person reads the refusal, or where another rule refuses too: above_limits would not help.
    """
    if step.trigger.kind == "manual" or not refused_by_limits_alone(plan):
        return ""
    page = above_limits_page(plan, _missing(ports, step, settings, fleet), ports.environment)
    try:
        ports.operators.tell(page.subject, page.text)
    except (OperatorsUnreachable, AwsCallRejected) as unreachable:
        return f". A person may start it with {page.input} (nobody was paged: {unreachable})"
    return f". A person may start it with {page.input}"


def _as_many_as_missing(
    ports: Ports, step: PlanStep, settings: ClusterSettings, fleet: FleetState
) -> ScaleOutPlan:
    """The plan of as many replicas as a person asked for, or of all that an automatic start misses and rules allow.

    Of what no rule allows the smallest is planned all the same: its refusals say why.
    """
    account = account_use(ports, settings, fleet)
    for count in range(_wanted(ports, step, settings, fleet), step.count - 1, -1):
        plan = decided(ports, step, settings, fleet, count, step.ready_by, account)
        if step.above_limits:
            plan = passing_limits(plan, step.reason or "")
        if not plan.refusals:
            return plan
    return plan


def _wanted(ports: Ports, step: PlanStep, settings: ClusterSettings, fleet: FleetState) -> int:
    if step.trigger.kind == "manual":
        return step.count
    missing = _missing(ports, step, settings, fleet)
    return max(step.count, min(missing, settings.max_replicas - len(fleet.under_ceiling)))


def _missing(ports: Ports, step: PlanStep, settings: ClusterSettings, fleet: FleetState) -> int:
    """How many replicas the forecast misses, as many as one run brings at most; `count` where that is not known."""
    missing = missing_replicas(ports, settings, fleet)
    if isinstance(missing, Unknown):
        return step.count
    return max(step.count, min(missing, MOST_WANTED))


def decided(
    ports: Ports,
    step: StepInput,
    settings: ClusterSettings,
    fleet: FleetState,
    count: int,
    ready_by: datetime | None,
    account: AccountUse,
    taken_donor: str | None = None,
) -> ScaleOutPlan:
    """The plan of so many replicas more, with its refusals.

    Parked ones return first, the others are built. With `ready_by` each of them comes by the cheapest method that is in
    time. `taken_donor` is the run's own, once it has chosen.
    """
    past = ports.past_runs.past_steps(settings.name)
    donor = choose_donor(fleet, settings, taken_donor)
    history = snapshot_history(ports, settings, fleet, donor)
    promises = {kind: instance_promise(ports, kind) for kind in settings.instance_types}
    promise = promises[settings.instance_type]
    # What started the run has passed when it is planned.
    inputs = lead_time_inputs(settings, fleet, past, history, promise)
    inputs = replace(inputs, trigger_seconds=0.0, paid_mib_per_s=0.0)
    prices = prices_for_plan(ports, settings)
    region = initialization_rate_of_region(ports)
    build = _plan(ports, step, settings, fleet, [Way()], prices, promises, donor)
    hourly = build.price.hourly
    situation = Situation(
        settings=settings,
        fleet=fleet,
        environment=ports.environment,
        inputs=inputs,
        past=past,
        prices=prices,
        hourly_usd=Unknown("no price is known") if hourly is None else Known(hourly),
        sizes_gib={one.name: one.size_gib for one in build.volumes},
        region=region,
        now=ports.clock.now(),
        ready_by=ready_by,
    )
    ways = ways_of(situation, count)
    plan = _plan(ports, step, settings, fleet, ways, prices, promises, donor, count)
    checks = plan_checks(ports, settings, fleet, plan, past, prices, promise, region, account)
    refused = [
        Refusal(code="check", reason=f"{one.name}: {one.detail}; {one.remedy}")
        for one in checks
        if one.refuses
    ]
    plan = plan.model_copy(update={"checks": checks, "refusals": (*plan.refusals, *refused)})
    plan = _with_keys(ports, settings, fleet, plan)
    return plan.model_copy(update={"calls": planned_calls(plan, settings.read_endpoint.kind)})


def _with_keys(
    ports: Ports, settings: ClusterSettings, fleet: FleetState, plan: ScaleOutPlan
) -> ScaleOutPlan:
    """The plan with a refusal for each key that EC2 or EBS could not use: they would tell nobody before the run fails.

    A replica that returns boots from its own root volume, which is among its volumes.
    """
    places: dict[str, list[str]] = {}
    returned = [one.method.replica for one in plan.members if one.method and one.method.comes_back]
    donor = plan.donor if plan.builds else None
    for like in filter(None, (fleet.replica(one) for one in (*returned, donor) if one)):
        for one in like.volumes:
            if one.kms_key_id:
                places.setdefault(one.kms_key_id, []).append(f"the volumes of {like.instance_id} are")
    found, notes = [], list(plan.notes)
    if plan.builds:
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
    step: StepInput,
    settings: ClusterSettings,
    fleet: FleetState,
    ways: Sequence[Way],
    prices: PriceTable,
    promises: Promises,
    donor: DonorChoice,
    count: int = 1,
) -> ScaleOutPlan:
    now = ports.clock.now()
    lease = ports.lease.current(step.cluster, now)
    return decide_plan(
        fleet,
        settings,
        prices,
        now,
        count=count,
        lease=None if lease is None or lease.run_id == step.run_id else lease,
        ways=ways,
        kept_gib=_kept_gib(ports, settings, donor),
        promises=promises,
        donor=donor,
    )


def _kept_gib(ports: Ports, settings: ClusterSettings, choice: DonorChoice) -> float:
    """What kept snapshot sets store after the run: at most all of the donor's volumes."""
    if not settings.keep_snapshots:
        return 0.0
    planned = 0.0
    if choice.donor is not None:
        planned = float(sum(one.size_gib for one in data_volumes(choice.donor, settings).values()))
    donor = None if choice.donor is None else choice.donor.instance_id
    return stored_gib(ports.ledger.snapshot_sets(settings.name), donor, planned)


def plan_text(plan: ScaleOutPlan) -> str:
    """What would be done, in a line; or why it is refused."""
    if plan.refusals:
        return f"refused: {plan.refusal_text}"
    returned = [str(one.method.replica) for one in plan.members if one.method and one.method.comes_back]
    back = f"return {', '.join(returned)}" if returned else ""
    zones = ", ".join(
        one.zones[0] if one.zones else "no zone"
        for one in plan.members
        if not one.method or one.method.action == "build"
    )
    above = f"; passes {' and '.join(plan.lifted)}" if plan.lifted else ""
    anew = f"build {plan.builds} x {plan.instance_type} in {zones} from {plan.donor}" if plan.builds else ""
    return f"{' and '.join(filter(None, (back, anew)))} at {_at(plan)}{above}"


def _at(plan: ScaleOutPlan) -> str:
    return "an unknown price" if plan.price.hourly is None else f"${plan.price.hourly}/h"


def _numbers(plan: ScaleOutPlan) -> dict[str, Any]:
    batch = plan.batch_price
    return {
        "serving": plan.serving,
        "members": len(plan.members),
        "batch_hourly_usd": None if batch is None else batch.hourly,
        "hourly_usd": plan.price.hourly,
        "lead_time_seconds": None if plan.lead_time is None else plan.lead_time.seconds,
        "method": None if plan.method is None else plan.method.action,
        "method_reason": None if plan.method is None else plan.method.reason,
        "size_gib": sum(volume.size_gib for volume in plan.volumes),
    }
