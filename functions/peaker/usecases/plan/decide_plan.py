"""The plan of a number of replicas, decided from gathered facts: members, price, checks, refusals and calls. Pure."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.document.plan import Refusal, ScaleOutPlan
from peaker.domain.planning.options import Situation, ways_of
from peaker.domain.planning.plan_decision import build_hourly, plan_scale_out
from peaker.domain.planning.plan_refusals import taken_devices
from peaker.domain.reading import Unknown
from peaker.domain.replicas.donor import data_volumes
from peaker.domain.report.planned_calls import planned_calls
from peaker.domain.storage.snapshot_sets import stored_gib
from peaker.usecases.plan.plan_checks import plan_checks
from peaker.usecases.plan.plan_facts import PlanFacts


def decide_plan(facts: PlanFacts, count: int, ready_by: datetime | None) -> ScaleOutPlan:
    """The plan of so many replicas more, with its refusals.

    Parked replicas return first, the others are built. With `ready_by` each of them comes by the cheapest method that
    is in time.
    """
    donor = facts.donor.donor
    sizes = {} if donor is None else data_volumes(donor, facts.settings)
    situation = Situation(
        settings=facts.settings,
        fleet=facts.fleet,
        environment=facts.environment,
        inputs=facts.inputs,
        past=facts.past,
        prices=facts.prices,
        hourly_usd=build_hourly(facts.donor, facts.settings, facts.prices),
        sizes_gib={name: volume.size_gib for name, volume in sizes.items()},
        region=facts.region,
        now=facts.now,
        ready_by=ready_by,
    )
    plan = plan_scale_out(
        facts.fleet,
        facts.settings,
        facts.prices,
        facts.now,
        count=count,
        lease=facts.lease,
        ways=ways_of(situation, count),
        kept_gib=_kept_gib(facts, situation),
        promises=facts.promises,
        donor=facts.donor,
    )
    checks = plan_checks(facts, plan)
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


def _kept_gib(facts: PlanFacts, situation: Situation) -> float:
    """GiB that kept snapshot sets store after the run: at most all of the donor's volumes."""
    if not facts.settings.keep_snapshots:
        return 0.0
    donor = None if facts.donor.donor is None else facts.donor.donor.instance_id
    return stored_gib(facts.snapshot_sets, donor, float(sum(situation.sizes_gib.values())))


def _image_and_keys(facts: PlanFacts, plan: ScaleOutPlan) -> tuple[list[Refusal], list[str]]:
    """A refusal for an image or a key that EC2 or EBS cannot use, which no call says before the run fails; and notes.

    A replica that returns boots from its own root volume, which is among its volumes.
    """
    places: dict[str, list[str]] = {}
    returned = [one.method.replica for one in plan.members if one.method and one.method.comes_back]
    donor = plan.donor if plan.builds else None
    for like in filter(None, (facts.fleet.replica(one) for one in (*returned, donor) if one)):
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
