"""PlanScaleOut: a scale-out's plan is gathered for, decided and settled, or refused with every reason."""

from __future__ import annotations

from typing import Any

from peaker.domain.document.plan import ScaleOutPlan, as_document
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.planning.plan_refusals import above_limits_page, passing_limits, refused_by_limits_alone
from peaker.domain.reading import Known, Unknown
from peaker.domain.runs.batch import MOST_WANTED
from peaker.domain.runs.run import PlanStep, Summary
from peaker.domain.storage.first_snapshots import first_set_note
from peaker.ports.bundle import Ports
from peaker.usecases.plan.check_shortage import missing_replicas, why_not_short
from peaker.usecases.plan.decide_plan import decide_plan
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.plan_facts import gather_plan_facts
from peaker_contract.errors import (
    AboveLimits,
    AwsCallRejected,
    NoShortage,
    OperatorsUnreachable,
    ScaleOutRefused,
)
from peaker_contract.metrics import Metric


class Planned(Summary):
    """The plan, whole: it is the output of plan mode."""

    plan: dict[str, Any]


def plan_scale_out(ports: Ports, step: PlanStep) -> Planned:
    """In act mode raises AboveLimits or ScaleOutRefused, or NoShortage when an automatic run has nothing to build.

    Without a fencing token it writes nothing and returns the plan with its refusals.
    """
    settings = ports.clusters.settings(step.cluster)
    fleet = possible_donors(ports, settings)
    facts = gather_plan_facts(ports, step, settings, fleet)
    missing = step.count if step.trigger.kind == "manual" else _missing(ports, step, facts)
    plan = _with_first_set(ports, facts, _largest_allowed(facts, step, missing))
    if step.fencing_token is None:
        return Planned(text=plan_text(plan), plan=as_document(plan))
    if step.trigger.kind != "manual" and (why := why_not_short(ports, settings, step.trigger, fleet)):
        raise NoShortage(why)
    if plan.refusals:
        why = f"{step.cluster}: {plan.refusal_text}{_page_limits(ports, step, plan, missing)}"
        if refused_by_limits_alone(plan):
            raise AboveLimits(why)
        raise ScaleOutRefused(why)
    ports.ledger.settle(step.holder, plan)
    return Planned(text=plan_text(plan), plan=as_document(plan), numbers=_numbers(plan))


def _missing(ports: Ports, step: PlanStep, facts: PlanFacts) -> int:
    """How many replicas the forecast misses, as many as one run brings at most; `count` where that is not known."""
    missing = missing_replicas(ports, facts.settings, facts.fleet)
    if isinstance(missing, Unknown):
        return step.count
    return max(step.count, min(missing, MOST_WANTED))


def _with_first_set(ports: Ports, facts: PlanFacts, plan: ScaleOutPlan) -> ScaleOutPlan:
    """The plan with the price of the snapshot set that is taken before the first run, where one is to come."""
    observing = ports.readings.published(facts.settings, Metric.OBSERVING, ports.clock.now())
    hourly = plan.price.snapshots_hourly
    note = first_set_note(
        facts.settings,
        observing,
        facts.snapshot_sets,
        plan.price.snapshots_gib,
        Unknown("no price is known") if hourly is None else Known(hourly),
    )
    return plan if note is None else plan.model_copy(update={"notes": (*plan.notes, note)})


def _largest_allowed(facts: PlanFacts, step: PlanStep, missing: int) -> ScaleOutPlan:
    """The plan of as many replicas as a person asked for, or of all that an automatic start misses and rules allow.

    Where rules allow no count the smallest is planned all the same: its refusals say why.
    """
    room = facts.settings.max_replicas - len(facts.fleet.under_ceiling)
    wanted = step.count if step.trigger.kind == "manual" else max(step.count, min(missing, room))
    for count in range(wanted, step.count - 1, -1):
        plan = decide_plan(facts, count, step.ready_by)
        if step.above_limits:
            plan = passing_limits(plan, step.reason or "")
        if not plan.refusals:
            break
    return plan


def _page_limits(ports: Ports, step: PlanStep, plan: ScaleOutPlan, missing: int) -> str:
    """Pages the operators with the input that starts the run above its limits; the same in words for the refusal.

    Empty where a person reads the refusal, or where another rule refuses too: above_limits would not help.
    """
    if step.trigger.kind == "manual" or not refused_by_limits_alone(plan):
        return ""
    subject, text, start = above_limits_page(plan, missing, ports.environment)
    try:
        ports.operators.tell(subject, text)
    except (OperatorsUnreachable, AwsCallRejected) as unreachable:
        return f". A person may start it with {start} (nobody was paged: {unreachable})"
    return f". A person may start it with {start}"


def plan_text(plan: ScaleOutPlan) -> str:
    """The plan in a line; or why it is refused."""
    if plan.refusals:
        return f"refused: {plan.refusal_text}"
    back = f"return {', '.join(plan.returned)}" if plan.returned else ""
    built = [one for one in plan.members if one.returns is None]
    zones = ", ".join(one.zones[0] if one.zones else "no zone" for one in built)
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
