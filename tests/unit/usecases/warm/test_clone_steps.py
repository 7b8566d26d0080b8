"""A clone as its steps do it: no snapshot, empty volumes under the donor's keys, a host that is told its donor."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.learning.fills import FillFailed, PastFills
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.methods.choice import MethodChoice
from peaker.domain.planning.methods.situation import MethodName
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.run_memory import Donor, DonorTables
from peaker.domain.storage.io_findings import InstancePromise
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.warm.start_prewarm import start_prewarm

from peaker_contract import errors
from peaker_contract.steps import Method
from peaker_contract.tags import ROLE_TAG
from tests.support.builders import RUN_ID, leased, orders, with_cluster
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.unit.usecases.create.test_building import answer, plan_step

KEY = "arn:aws:kms:us-east-1:111111111111:key/0a1b2c3d-0000-4000-8000-000000000001"


def world() -> FakePorts:
    """A run that is to clone, with its donor chosen and its instance launched."""
    ports = with_cluster(
        fake_ports(orders(initialization_rate_mib_per_s=None, prewarm={"clone_mib_per_s": 700}))
    )
    ports.compute.ebs_promise = lambda _: InstancePromise(baseline_mib_per_s=593)  # type: ignore[method-assign]
    plan_scale_out(ports, plan_step(ports, ready_by=NOON + timedelta(minutes=1)))
    plan = ports.ledger.run(RUN_ID).required(ScaleOutPlan, "")
    assert plan.clones
    step = leased(ports, "NextMembers")
    member = Member(batch=RUN_ID, number=1, method=Method.BUILD, fills=plan.starts_empty, clones=plan.clones)
    batch = Batch(wanted=1, deadline=NOON + timedelta(hours=1), rounds=((RUN_ID,),))
    ports.ledger.settle(holder_of(step), member, batch)
    choose_donor(ports, leased(ports, "ChooseDonor"))
    ports.ledger.settle(holder_of(step), DonorTables(not_innodb=[]))
    launch_replica(ports, leased(ports, "LaunchReplica"))
    return ports


def donor_of(ports: FakePorts) -> Donor:
    return ports.ledger.run(RUN_ID).required(Donor, "")


def test_no_snapshot_is_taken_and_none_is_waited_for() -> None:
    ports = world()
    taken = create_snapshots(ports, leased(ports, "CreateSnapshots"))
    waited = await_snapshots(ports, leased(ports, "AwaitSnapshots"))
    assert ports.storage.snapshots == {}
    assert (taken.numbers, waited.numbers) == ({}, {})
    assert "cloned" in taken.text


def test_snapshots_are_taken_once_a_member_is_built_from_them() -> None:
    """The round after a clone that was refused."""
    ports = world()
    step = leased(ports, "NextMembers")
    second = f"{RUN_ID}-2"
    run = ports.ledger.run(RUN_ID)
    batch = run.required(Batch, "").model_copy(update={"rounds": ((RUN_ID,), (second,))})
    ports.ledger.settle(holder_of(step), batch)
    member = Member(batch=RUN_ID, number=2, method=Method.BUILD)
    parts = {member.ledger_name: member.model_dump_json()}
    ports.ledger.open_run(
        replace(holder_of(step), run_id=second, batch=RUN_ID), replace(run, run_id=second, parts=parts)
    )
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    assert len(ports.storage.snapshots) == len(donor_of(ports).volumes) == 2


def test_volumes_are_empty_and_under_the_keys_of_the_donor_s_own() -> None:
    ports = world()
    for volume_id in donor_of(ports).volumes.values():
        ports.storage.volumes[volume_id] = replace(ports.storage.volumes[volume_id], kms_key_id=KEY)
    create_volumes(ports, leased(ports, "CreateVolumes"))
    assert [(one.snapshot_id, one.kms_key_id, one.size_gib) for one in ports.storage.specs] == [
        (None, KEY, 4)
    ] * 2
    assert {one.initialization_rate_mib_per_s for one in ports.storage.specs} == {None}


def test_no_volume_is_made_where_the_donor_lost_its_own() -> None:
    ports = world()
    ports.storage.volumes.clear()
    with pytest.raises(errors.ResourceNotFound, match="does not show at its donor"):
        create_volumes(ports, leased(ports, "CreateVolumes"))


def test_the_host_is_told_its_donor_its_volumes_and_how_much_it_may_take() -> None:
    ports = world()
    create_volumes(ports, leased(ports, "CreateVolumes"))
    answer(ports, "start_clone", pid=1)
    said = start_prewarm(ports, leased(ports, "StartPrewarm"))
    sent = ports.commands.parameters[-1]
    donor = donor_of(ports).instance_id
    assert {one["name"] for one in json.loads(sent["Volumes"])} == {"data", "log"}
    assert sent["DonorHost"] == ports.compute.instance(donor).private_ip
    assert (sent["DonorPort"], sent["RateMibPerS"]) == ("3306", "700")
    assert (sent["Engine"], sent["HealthPort"]) == ("mysql", "9200")
    assert said.numbers["cloned_from"] == donor


def test_a_donor_that_became_the_source_is_not_cloned() -> None:
    """A failover after it was chosen (I2)."""
    ports = world()
    create_volumes(ports, leased(ports, "CreateVolumes"))
    donor = ports.compute.instance(donor_of(ports).instance_id)
    ports.compute.instances[donor.instance_id] = replace(donor, tags={**donor.tags, ROLE_TAG: "source"})
    with pytest.raises(errors.NoDonor, match="became the source"):
        start_prewarm(ports, leased(ports, "StartPrewarm"))


@pytest.mark.parametrize(
    ("tables", "said"),
    [(["shop.old (MyISAM)"], r"shop\.old \(MyISAM\) would come empty"), (None, "it does not say")],
)
def test_a_donor_of_which_a_clone_would_bring_a_part_is_not_cloned(
    tables: list[str] | None, said: str
) -> None:
    """Its readers would find tables empty that have rows."""
    ports = world()
    create_volumes(ports, leased(ports, "CreateVolumes"))
    step = leased(ports, "StartPrewarm")
    ports.ledger.settle(holder_of(step), DonorTables(not_innodb=tables))
    with pytest.raises(errors.PrewarmFailed, match=said):
        start_prewarm(ports, step)
    assert "start_clone" not in [document for document, _, _ in ports.commands.sent]


def plan_after(past: PastSteps, **settings: Any) -> ScaleOutPlan:
    """After such runs."""
    prewarm = {"clone_mib_per_s": 700}
    ports = with_cluster(
        fake_ports(orders(**{"initialization_rate_mib_per_s": None, "prewarm": prewarm, **settings}))
    )
    ports.past_runs.past_steps = lambda _: past  # type: ignore[method-assign]
    ports.compute.ebs_promise = lambda _: InstancePromise(baseline_mib_per_s=593)  # type: ignore[method-assign]
    plan_scale_out(ports, plan_step(ports, ready_by=NOON + timedelta(minutes=1)))
    return ports.ledger.run(RUN_ID).required(ScaleOutPlan, "")


def comparison_after(past: PastSteps, **settings: Any) -> MethodChoice:
    """What a plan says of the methods, after such runs."""
    found = plan_after(past, **settings).comparison
    assert found is not None
    return found


def test_what_goes_between_zones_is_in_the_plan_s_dollars_and_so_in_the_receipt_s() -> None:
    """Two volumes of 4 GiB, all of them used for all that is known, at $0.01 a GiB in each direction."""
    plan = plan_after(PastSteps())
    assert plan.clones
    assert plan.price.once == pytest.approx(8 * 0.02)
    assert plan.comparison is not None
    assert "$0.16 between zones" in plan.comparison.estimate(MethodName.CLONE).basis


def test_a_donor_that_refused_is_not_asked_again_for_a_day() -> None:
    refused = PastFills().not_filled(FillFailed(NOON - timedelta(hours=2), "Plugin 'clone' is not loaded"))
    comparison = comparison_after(PastSteps(clones=refused))
    assert comparison.chosen is not MethodName.CLONE
    assert "Plugin 'clone' is not loaded" in str(comparison.estimate(MethodName.CLONE).why_not)


def test_a_set_is_not_cloned_and_the_plan_says_so() -> None:
    place = "/var/lib/mysql"
    striped = [
        {**one.model_dump(mode="json"), "layout": "raid0", "mount_point": place} for one in orders().volumes
    ]
    shown = comparison_after(PastSteps(), volumes=striped).estimate(MethodName.CLONE)
    assert "data, log are of a set" in str(shown.why_not)
