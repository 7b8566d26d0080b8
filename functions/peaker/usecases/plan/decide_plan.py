"""The plan of a number of replicas, decided from gathered facts: members, price, checks, refusals and calls. Pure."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.document.plan import Check, Refusal, ScaleOutPlan
from peaker.domain.planning.capacity_order import types_in_order
from peaker.domain.planning.checks.account_quotas import Launches, ebs_storage, vcpus
from peaker.domain.planning.checks.bandwidth import iops_per_gib, look_at_bandwidth
from peaker.domain.planning.checks.headroom import (
    binary_logs,
    buffer_pool,
    initialization_rate,
    zones_in_order,
)
from peaker.domain.planning.options import ways_of
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.planning.plan_refusals import taken_devices
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.report.planned_calls import planned_calls
from peaker.domain.runs.past_runs import PastSteps


def decide_plan(facts: PlanFacts, count: int, ready_by: datetime | None) -> ScaleOutPlan:
    """The plan of so many replicas more, with its refusals.

    Parked replicas return first, the others are built. With `ready_by` each of them comes by the cheapest method that
    is in time.
    """
    plan = plan_scale_out(facts, ways_of(facts, count, ready_by))
    checks = _checks(facts, plan)
    refused = [
        Refusal(code="check", reason=f"{one.name}: {one.detail}; {one.remedy}")
        for one in checks
        if one.refuses
    ]
    keys, notes = _image_and_keys(facts, plan)
    return plan.model_copy(
        update={
            "checks": checks,
            "refusals": (*plan.refusals, *refused, *keys),
            "notes": (*plan.notes, *notes),
            "calls": planned_calls(plan, facts.settings.read_endpoint.kind),
        }
    )


def _image_and_keys(facts: PlanFacts, plan: ScaleOutPlan) -> tuple[list[Refusal], list[str]]:
    """A refusal for an image or a key that EC2 or EBS cannot use, which no call says before the run fails; and notes.

    A replica that returns boots from its own root volume, which is among its volumes.
    """
    places: dict[str, list[str]] = {}
    donor = (plan.donor,) if plan.builds and plan.donor else ()
    for like in filter(None, (facts.fleet.replica(one) for one in (*plan.returned, *donor))):
        for one in like.volumes:
            if one.kms_key_id:
                places.setdefault(one.kms_key_id, []).append(f"the volumes of {like.instance_id} are")
    refusals, notes = [], []
    if plan.builds:
        image = f"image_id {facts.settings.image_id}"
        if facts.why_no_image is not None:
            refusals.append(Refusal(code="image", reason=f"{image} cannot be launched: {facts.why_no_image}"))
        taken = taken_devices(facts.image_devices, plan.volumes)
        refusals += [Refusal(code="image", reason=f"{image} {why}") for why in taken]
        if isinstance(facts.image_keys, Unknown):
            notes.append(f"the key of {image} is unknown: {facts.image_keys.why}")
        else:
            for key in facts.image_keys:
                places.setdefault(key, []).append(f"{image} is")
    refusals += [
        Refusal(code="key", reason=f"{' and '.join(dict.fromkeys(where))} under {key}: {why}")
        for key, where in sorted(places.items())
        if (why := facts.why_unusable.get(key)) is not None
    ]
    return refusals, notes


def _checks(facts: PlanFacts, plan: ScaleOutPlan) -> tuple[Check, ...]:
    """The checks of a plan, in the order in which they are shown. Nothing is asked of the hosts."""
    settings, fleet, account = facts.settings, facts.fleet, facts.account
    volumes = plan.volumes
    found = look_at_bandwidth(volumes, settings.instance_type, facts.promise, facts.prices) if volumes else []
    if plan.builds and volumes:
        found.append(iops_per_gib(volumes))
    found.append(buffer_pool(_pool(facts.past), _memory(facts.promise), settings.instance_type))
    found.append(vcpus(_launches(fleet, plan), account))
    if plan.builds and volumes:
        found.append(ebs_storage(volumes, plan.builds, account))
    # A return was judged by its own parking; all others need the log from the donor's snapshot on.
    built = [one for one in plan.members if one.returns is None]
    if built:
        lead = built[0].lead_time
        found.append(binary_logs(None if lead is None else lead.p90_seconds, facts.binary_logs_kept))
        rates = [one.initialization_rate_mib_per_s or 0 for member in built for one in member.volumes]
        found.append(
            initialization_rate(float(sum(rates)), facts.region, settings.initialization_rate_mib_per_s)
        )
        found.append(zones_in_order(built[0].zones, fleet.by_zone))
        found += [types_in_order(plan.types)] if len(plan.types) > 1 else []
    return tuple(found)


def _launches(fleet: FleetState, plan: ScaleOutPlan) -> Launches:
    """The launches and starts of the members; a parked replica's instance counts only once it runs."""
    parked = [fleet.replica(one) for one in plan.returned]
    types = tuple(one.instance.instance_type for one in parked if one is not None)
    return Launches(plan.launch_order, plan.builds, types)


def _pool(past: PastSteps) -> Reading:
    if not past.pool_bytes:
        return Unknown("no run has told yet how much a donor holds in its buffer pool")
    return Known(past.pool_bytes[-1])


def _memory(promise: InstancePromise | Unknown) -> Reading:
    if isinstance(promise, Unknown):
        return promise
    return (
        Unknown("EC2 names no memory of the type")
        if promise.memory_mib is None
        else Known(promise.memory_mib)
    )
