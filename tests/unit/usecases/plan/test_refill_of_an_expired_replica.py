"""A plan that refills an expired parked replica: what must be kept of it, and what the plan then says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.lead_time import predict_lead_time
from peaker.domain.planning.learning.fills import FillFailed, PastFills
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.refilling import why_none_refilled
from peaker.domain.planning.methods.situation import MethodEstimate, MethodName
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Snapshot, TargetState
from peaker.domain.runs.batch import Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import PlanStep
from peaker.domain.storage.io_findings import InstancePromise
from peaker.domain.storage.snapshot_sets import CHANGED_A_DAY, SnapshotSet
from peaker.usecases.plan.account_use import account_use
from peaker.usecases.plan.gather_fleet import possible_donors
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs
from peaker.usecases.plan.plan_scale_out import decided, plan_scale_out, plan_text
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.release_lease import release_lease

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected
from peaker_contract.steps import Method
from peaker_contract.tags import LOAD_TAG, OWNER_TAG, RUN_TAG
from tests.support.builders import BASE, PEAK, RUN_ID, data_volumes_of, instance, leased, orders, with_cluster
from tests.support.fakes import NOON, FakePorts, fake_ports

RETIREMENT = {"idle_seconds": 600, "park": "always", "refill_expired": True}
PREWARM = {"direct_fill": True}
GIB = 1024.0**3
USED = 2 * 200 * GIB
DAY = timedelta(days=1)


def made(**changes: Any) -> FakePorts:
    """Two volumes of 200 GiB; a peak replica that was built a day ago, parked six hours later, and has expired."""
    settings = {"retirement": RETIREMENT, "prewarm": PREWARM, **changes}
    ports = fake_ports(orders(**settings))
    with_cluster(ports)
    for volume in data_volumes_of(BASE, size_gib=200):
        ports.storage.add(volume)
    step = leased(ports, "RecordReceipt")
    tags = {OWNER_TAG: "local", RUN_TAG: RUN_ID}
    ports.compute.add(instance(PEAK, tags={**tags, LOAD_TAG: "peak"}, state="stopped"))
    for volume in data_volumes_of(PEAK, tags, size_gib=200):
        ports.storage.add(volume)
    ports.endpoint.set(PEAK, TargetState.ABSENT)
    sources = {one.name: one.volume_id for one in data_volumes_of(BASE) if one.name is not None}
    taken = ports.storage.create_snapshots(BASE, list(sources.values()), tags)
    for one in taken:
        ports.storage.snapshots[one.snapshot_id] = replace(one, state="completed", started_at=NOON - DAY)
    ids = dict(zip(sources, (one.snapshot_id for one in taken), strict=True))
    kept = SnapshotSet("orders", RUN_ID, BASE, NOON - DAY, ids, sources)
    holder = holder_of(step)
    ports.ledger.keep_snapshots(holder, kept)
    parking = Parking(NOON - 0.75 * DAY, "uuid:1-9", 86_400.0, NOON, "a limit")
    ports.ledger.set_replica(
        holder, ReplicaRow("orders", PEAK, RUN_ID, ReplicaState.PARKED, NOON, parking=parking)
    )
    release_lease(ports, step)
    return ports


def planned(ports: FakePorts, hours: float | None = None, count: int = 1) -> ScaleOutPlan:
    ready_by = None if hours is None else NOON + timedelta(hours=hours)
    step = PlanStep(
        run_id="scale-out-orders-2", cluster="orders", operation="scale_out", step="PlanOnly",
        ready_by=ready_by, count=count,
    )  # fmt: skip
    return ScaleOutPlan.model_validate(plan_scale_out(ports, step).plan)


def refill_of(plan: ScaleOutPlan) -> MethodEstimate:
    assert plan.comparison is not None
    return plan.comparison.estimate(MethodName.RETURN_EXPIRED)


def test_an_expired_one_comes_back_by_what_has_changed() -> None:
    plan = planned(made())
    assert (plan.refills, plan.returns, plan.builds, plan.copies_of_donor) == (True, PEAK, 0, 1)
    assert plan.refusals == ()
    assert plan_text(plan).startswith(f"refill {PEAK} from {BASE} at $")
    taken = refill_of(plan)
    assert plan.comparison is not None
    assert (plan.comparison.chosen, plan.comparison.falls_back_to) == (
        taken.name,
        MethodName.USED_BLOCKS,
    )
    assert plan.lead_time is not None
    assert plan.method is not None
    assert plan.lead_time.seconds == pytest.approx(taken.p50_seconds, abs=0.1)
    assert plan.method.return_seconds == pytest.approx(taken.p50_seconds, abs=0.1)
    assert plan.lead_time.seconds < plan.method.build_seconds
    assert plan.price.once == pytest.approx(taken.once_usd, abs=1e-3)
    assert plan.method.return_usd == pytest.approx(taken.usd, abs=1e-4)


def test_what_changed_is_what_the_donor_wrote_since_and_what_the_copy_wrote_until_it_was_parked() -> None:
    """Fifteen of a hundred on the day of the donor; six hours of the copy by the root of the time: half of that."""
    share = CHANGED_A_DAY + CHANGED_A_DAY / 2
    assert f"{share * USED / 1e9:.1f} GB that changed" in refill_of(planned(made())).basis


def test_together_they_are_at_most_what_is_used() -> None:
    ports = made()
    ports.clock.advance(hours=24 * 400)
    assert f"{USED / 1e9:.1f} GB that changed" in refill_of(planned(ports)).basis


def parking(ports: FakePorts, **changes: Any) -> None:
    row = ports.ledger.replicas("orders")[PEAK]
    assert row.parking is not None
    of_replica(ports, parking=replace(row.parking, **changes))


def of_replica(ports: FakePorts, **changes: Any) -> None:
    step = leased(ports, "Changed")
    row = replace(ports.ledger.replicas("orders")[PEAK], **changes)
    ports.ledger.set_replica(holder_of(step), row)
    release_lease(ports, step)


def kept(ports: FakePorts, **changes: Any) -> None:
    """The set as it is now; None forgets it."""
    step = leased(ports, "Changed")
    [one] = ports.ledger.snapshot_sets("orders")
    ports.ledger.forget_snapshots(holder_of(step), one, NOON)
    if changes:
        ports.ledger.keep_snapshots(holder_of(step), replace(one, **changes))
    release_lease(ports, step)


def built_as(ports: FakePorts, **changes: Any) -> None:
    step = leased(ports, "Changed")
    ports.ledger.settle(holder_of(step), Member(batch=RUN_ID, number=1, method=Method.BUILD, **changes))
    release_lease(ports, step)


def volume(ports: FakePorts, volume_id: str, **changes: Any) -> None:
    ports.storage.volumes[volume_id] = replace(ports.storage.volumes.pop(volume_id), **changes)
    if "volume_id" in changes:
        ports.storage.add(ports.storage.volumes.pop(volume_id))


def builder_gone(ports: FakePorts) -> None:
    of_replica(ports, run_id="run-gone")
    tags = {OWNER_TAG: "local", RUN_TAG: "run-gone", LOAD_TAG: "peak"}
    ports.compute.add(instance(PEAK, tags=tags, state="stopped"))


def no_list(ports: FakePorts) -> None:
    def refused(_: object) -> list[Snapshot]:
        raise AwsCallRejected("ec2:DescribeSnapshots: UnauthorizedOperation")

    ports.storage.snapshots_of_volumes = refused  # type: ignore[method-assign]


NOT_REFILLED: dict[str, tuple[Callable[[FakePorts], object], str]] = {
    "a refill of it did not end": (
        lambda ports: parking(ports, spent=f"{REFILL_DID_NOT_END}: run-9"),
        f"it is not refilled: {REFILL_DID_NOT_END}",
    ),
    "a refill of it failed": (
        lambda ports: parking(ports, failed_return="run-9, FillVolumes: PrewarmFailed"),
        "an earlier return failed: run-9",
    ),
    "it runs": (
        lambda ports: ports.compute.add(
            instance(PEAK, tags={OWNER_TAG: "local", RUN_TAG: RUN_ID, LOAD_TAG: "peak"})
        ),
        "its instance is running",
    ),
    "its set was not kept": (kept, f"the snapshots of {RUN_ID}, which it was made from, are not kept"),
    "a set of another run is kept": (lambda ports: kept(ports, run_id="run-8"), "are not kept"),
    "a snapshot was deleted": (
        lambda ports: ports.storage.snapshots.popitem(),
        "snap-00000000000000002, which it was made from, is gone",
    ),
    "the set lacks a volume": (
        lambda ports: kept(ports, snapshots={"data": "snap-00000000000000001"}),
        "has no snapshot of log",
    ),
    "another donor": (
        lambda ports: kept(ports, donor="i-other"),
        f"it was made from i-other, and the donor is {BASE} now "
        "(i-other: it is no replica of the cluster any more)",
    ),
    "another volume of the donor": (
        lambda ports: kept(ports, sources={"data": "vol-data-0001", "log": "vol-older"}),
        f"{BASE} has another volume log",
    ),
    "the donor's volume has grown": (
        lambda ports: volume(ports, "vol-data-0001", size_gib=300),
        "the donor's volume data has another size than its own",
    ),
    "its host wrote its volumes": (lambda ports: built_as(ports, fills=True), "its volumes were made empty"),
    "its builder is gone": (builder_gone, "what it was built from cannot be read"),
    "the donor's snapshots cannot be read": (no_list, "its donor's snapshots cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("situation", NOT_REFILLED)
def test_without_any_of_this_it_is_built_and_the_plan_says_why(situation: str) -> None:
    change, why = NOT_REFILLED[situation]
    ports = made()
    change(ports)
    plan = planned(ports)
    assert not plan.refills
    assert why in str(refill_of(plan).why_not)


def test_its_members_batch_is_where_its_set_is_looked_for() -> None:
    ports = made()
    kept(ports, run_id="run-of-all")
    step = leased(ports, "Changed")
    ports.ledger.settle(holder_of(step), Member(batch="run-of-all", number=2, method=Method.BUILD))
    release_lease(ports, step)
    assert planned(ports).refills


def no_refills(settings: ClusterSettings) -> ClusterSettings:
    off = settings.retirement.model_copy(update={"refill_expired": False})
    return settings.model_copy(update={"retirement": off})


def no_fills(settings: ClusterSettings) -> ClusterSettings:
    return settings.model_copy(update={"prewarm": settings.prewarm.model_copy(update={"direct_fill": False})})


def in_a_set(settings: ClusterSettings) -> ClusterSettings:
    volumes = tuple(one.model_copy(update={"layout": "md_raid0"}) for one in settings.volumes)
    return settings.model_copy(update={"volumes": volumes})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (no_refills, "retirement.refill_expired is false"),
        (no_fills, "prewarm.direct_fill is false"),
        (in_a_set, "data, log are of a set"),
    ],
)
def test_only_where_the_settings_allow_it(
    change: Callable[[ClusterSettings], ClusterSettings], why: str
) -> None:
    settings = orders(retirement=RETIREMENT, prewarm=PREWARM)
    assert why_none_refilled(settings, PastSteps(), NOON) is None
    assert why in str(why_none_refilled(change(settings), PastSteps(), NOON))
    assert planned(made(retirement={**RETIREMENT, "refill_expired": False})).builds == 1


def test_one_that_aws_refused_is_not_tried_again_on_the_same_day() -> None:
    settings = orders(retirement=RETIREMENT, prewarm=PREWARM)
    past = PastSteps(refills=PastFills().not_filled(FillFailed(NOON, "UNRELATED_SNAPSHOTS")))
    assert "UNRELATED_SNAPSHOTS" in str(why_none_refilled(settings, past, NOON))
    assert why_none_refilled(settings, past, NOON + DAY) is None


def test_one_whose_logs_are_gone_is_refilled_although_a_return_of_it_failed() -> None:
    ports = made()
    lost = {"until": None, "spent": "the source has purged binary logs that it lacks"}
    parking(ports, **lost, failed_return="run-7, StartReplication: BinlogsGone")
    assert planned(ports).refills


def test_with_a_deadline_it_is_one_of_the_methods() -> None:
    """With an hour it is the quickest; with a day a build costs less than the requests for what has changed."""
    soon, late = planned(made(), hours=1), planned(made(), hours=24)
    assert soon.method is not None
    assert late.method is not None
    assert (soon.method.action, soon.returns) == ("refill", PEAK)
    assert soon.lead_time is not None
    assert soon.lead_time.seconds == pytest.approx(soon.method.return_seconds, abs=0.1)
    assert (late.method.action, late.returns) == ("build", None)


def test_of_two_members_one_is_refilled_and_the_other_is_built() -> None:
    plan = planned(made(max_replicas=4), count=2)
    first, second = plan.of_member(1), plan.of_member(2)
    assert (first.returns, first.refills, second.returns, second.refills) == (PEAK, True, None, False)
    assert (plan.builds, plan.copies_of_donor) == (1, 2)
    assert f"refill {PEAK} from {BASE} and build 1 x" in plan_text(plan)


def test_what_it_calls_makes_no_instance_and_no_volume() -> None:
    calls = {one.action: one.times for one in planned(made()).calls}
    assert (calls["ec2:CreateSnapshots"], calls["ec2:StartInstances"]) == (2, 1)
    assert not {"ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume"} & set(calls)


def test_the_keys_of_its_own_volumes_and_of_the_donor_s_must_be_usable() -> None:
    ports = made()
    volume(ports, f"vol-data-{PEAK[-4:]}", kms_key_id="key-own")
    volume(ports, f"vol-data-{BASE[-4:]}", kms_key_id="key-donor")
    ports.volume_keys.refused |= {"key-own": "it is disabled", "key-donor": "it is disabled"}
    plan = planned(ports)
    assert plan.refills
    assert f"the volumes of {PEAK} are under key-own" in plan.refusal_text
    assert f"the volumes of {BASE} are under key-donor" in plan.refusal_text


def test_it_is_judged_by_the_logs_of_its_source_and_waits_for_no_limit() -> None:
    plan = planned(made())
    names = [one.name for one in plan.checks]
    assert any("binary log" in name for name in names), names
    assert plan.members[0].admission is None


def test_once_a_host_failed_to_write_its_volumes_the_run_goes_on_without() -> None:
    ports = made()
    settings = ports.clusters.settings("orders")
    fleet = possible_donors(ports, settings)
    step = leased(ports, "NextMembers", run_id="scale-out-orders-2")
    failure = Failure(failed_step="FillVolumes", error="PrewarmFailed", cause="UNRELATED_SNAPSHOTS")
    account = account_use(ports, settings, fleet)
    plan = decided(ports, step, settings, fleet, 1, None, account, failure)
    assert not plan.refills
    assert "a fill failed in this run" in str(refill_of(plan).why_not)


BUILDS: dict[str, tuple[dict[str, Any], MethodName]] = {
    "all that is used is read": ({}, MethodName.USED_BLOCKS),
    "at a paid rate": ({"initialization_rate_mib_per_s": 200}, MethodName.PROVISIONED_RATE),
    "the hot set is read": ({"prewarm": {**PREWARM, "serve_when": "hot"}}, MethodName.HOT_FIRST),
}


@pytest.mark.parametrize("build", BUILDS)
def test_a_build_takes_as_long_by_the_decision_as_by_the_table_of_methods(build: str) -> None:
    """Through an instance that carries less than the volumes give."""
    changes, name = BUILDS[build]
    ports = made(**changes)
    ports.compute.ebs_promise = lambda _: InstancePromise(baseline_mib_per_s=30)  # type: ignore[method-assign]
    plan = planned(ports)
    assert plan.comparison is not None
    assert plan.method is not None
    assert (plan.method.action, plan.comparison.falls_back_to) == ("refill", name)
    shown = plan.comparison.estimate(name)
    assert plan.method.build_seconds == pytest.approx(shown.p50_seconds, abs=0.1)
    assert plan.method.build_usd == pytest.approx(shown.usd, abs=1e-4)


def test_what_the_instance_carries_slows_both_ways_so_that_the_refill_stays_the_sooner() -> None:
    """The prediction of a build knows no instance: by that alone the refill would take longer."""
    ports = made()
    ports.compute.ebs_promise = lambda _: InstancePromise(baseline_mib_per_s=10)  # type: ignore[method-assign]
    plan = planned(ports)
    settings = ports.clusters.settings("orders")
    inputs = lead_time_inputs(settings, possible_donors(ports, settings), PastSteps())
    assert plan.method is not None
    assert plan.lead_time is not None
    assert plan.lead_time.seconds > predict_lead_time(inputs).p50_seconds
    assert plan.method.action == "refill"
