"""The hourly look at kept snapshots: a first set while a cluster is observed, and the end of what nobody needs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.prices.price_table import EbsPrices
from peaker.domain.replicas.inventory import Snapshot, TargetState
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.run import PlanStep, RecordStep
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.maintain_snapshots import maintain_snapshots
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.record_receipt import record_receipt

from peaker_contract.errors import Throttled
from peaker_contract.metrics import Metric
from peaker_contract.names import CLUSTER_TAG, DONOR_TAG, OWNER_TAG, RUN_TAG, VOLUME_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.functions import Killed
from sim.workflows.interferences import DiesBefore, LosesAnswer
from tests.support.builders import BASE, RUN_ID, SOURCE, leased, let_late_calls_end, orders, with_cluster

NOT_YET = {"observation_days": 7.0}
FIRST = "first-snapshots-orders-20261121"


def world(observing: float | None = 1.0, **settings: Any) -> CalmPorts:
    """A cluster in its week of observation, with a source and one healthy base replica."""
    ports = with_cluster(calm_ports(orders(**{**NOT_YET, **settings})))
    if observing is not None:
        ports.readings.metrics["orders", Metric.OBSERVING] = observing
    return ports


def looked(ports: CalmPorts) -> str:
    let_late_calls_end(ports, "orders")  # the look before was an hour ago
    return maintain_snapshots(ports, "orders").text.removeprefix("orders: ")


def looked_at_removed(ports: CalmPorts) -> str:
    let_late_calls_end(ports, "orders")
    return maintain_snapshots(ports, None).text


def completed(ports: CalmPorts) -> CalmPorts:
    """The set was begun, an hour later it is complete, and the next look keeps it."""
    looked(ports)
    ports.clock.advance(hours=1)
    ports.clock.advance(seconds=40)
    looked(ports)
    return ports


def test_the_week_of_observation_takes_one_set_and_keeps_it_for_the_first_run() -> None:
    ports = world()
    assert looked(ports).startswith(f"{FIRST} began: no snapshot of {BASE} is kept")
    made = ports.storage.snapshots.values()
    assert {one.source_volume_id for one in made} == {"vol-data-0001", "vol-log-0001"}
    for one in made:
        assert (one.tags[OWNER_TAG], one.tags[RUN_TAG], one.tags[CLUSTER_TAG]) == ("local", FIRST, "orders")
        assert (one.tags[DONOR_TAG], one.tags[VOLUME_TAG] in {"data", "log"}) == (BASE, True)
    assert ports.ledger.snapshot_sets("orders") == []
    assert f"{FIRST}: snap" in looked(ports)
    ports.clock.advance(seconds=40)
    assert looked(ports) == f"{FIRST} stays for the first run's copy"
    [kept] = ports.ledger.snapshot_sets("orders")
    assert (kept.run_id, kept.donor, kept.gib) == (FIRST, BASE, 4.0)
    assert looked(ports) == "1 kept"
    assert len(ports.done("storage.create_snapshots")) == 1


def busy(ports: CalmPorts) -> None:
    leased(ports, "PlanScaleOut")


def backed_up(ports: CalmPorts) -> None:
    for volume in list(ports.storage.volumes.values()):
        name = f"snap-backup-{volume.volume_id}"
        at = ports.clock.now()
        ports.storage.add_snapshot(Snapshot(name, "completed", volume.volume_id, 100.0, started_at=at))


def without_source(ports: CalmPorts) -> None:
    ports.compute.forget(SOURCE)


def unhealthy(ports: CalmPorts) -> None:
    ports.endpoint.set(BASE, TargetState.UNHEALTHY)


HELD: dict[str, tuple[dict[str, Any], Any, str]] = {
    "none-is-kept": ({"keep_snapshots": False}, None, "keep_snapshots is false"),
    "mode-observe": ({"mode": "observe"}, None, "mode is observe: nothing is made"),
    "accepted": ({"observation_days": 0}, None, "is not observed"),
    "observation-over": ({"observing": 0.0}, None, "the observation is over"),
    "observation-unknown": ({"observing": None}, None, "unknown means hold (I4)"),
    "a-run-is-at-work": ({}, busy, "holds the lease until"),
    "backups-are-there": ({}, backed_up, "has a completed snapshot already"),
    "source-unknown": ({}, without_source, "the source is unknown"),
    "no-healthy-replica": ({}, unhealthy, "no replica can be snapshotted"),
}


@pytest.mark.parametrize("situation", HELD)
def test_nothing_is_taken(situation: str) -> None:
    settings, change, said = HELD[situation]
    ports = world(**settings)
    if change is not None:
        change(ports)
    assert said in looked(ports)
    assert len(ports.done("storage.create_snapshots")) == 0
    assert not any(one.tags.get(OWNER_TAG) for one in ports.storage.snapshots.values())


def test_what_the_budget_forbids_is_not_taken() -> None:
    ports = world(limits={**orders().limits.model_dump(), "max_hourly_cost_usd": 0.0001})
    assert "above the budget, max_hourly_cost_usd 0.0001 (I12)" in looked(ports)
    assert len(ports.done("storage.create_snapshots")) == 0


def test_a_price_that_is_unknown_forbids_it_only_under_a_budget() -> None:
    abroad = {"region": "eu-west-1", "instance_hourly_usd": 0.1}
    assert "cannot be checked (I4)" in looked(world(**abroad))
    limits = {**orders().limits.model_dump(), "max_hourly_cost_usd": None}
    assert "began" in looked(world(**abroad, limits=limits))
    assert EbsPrices().snapshot_gib_month is None


def test_a_call_whose_answer_was_lost_is_looked_for_before_it_is_made_again() -> None:
    ports = world()
    ports.meets(LosesAnswer(at="storage.create_snapshots", error=Throttled("ec2:CreateSnapshots: no answer")))
    assert "Throttled" in looked(ports)
    assert ports.lease.current("orders", ports.clock.now()) is None
    ports.clock.advance(seconds=40)
    assert looked(ports) == f"{FIRST} stays for the first run's copy"
    assert len(ports.done("storage.create_snapshots")) == 1


def test_a_look_that_died_before_its_snapshots_is_closed_the_next_day() -> None:
    ports = world()
    ports.meets(DiesBefore(at="storage.create_snapshots"))
    with pytest.raises(Killed):
        looked(ports)
    ports.clock.advance(days=1)
    assert looked(ports) == f"no snapshot of {FIRST} is there"
    assert (ports.ledger.run(FIRST).outcome, ports.ledger.unfinished_runs("orders")) == ("rolled_back", [])
    assert " began: " in looked(ports)


def test_a_set_that_ends_in_error_goes_and_the_next_day_tries_again() -> None:
    ports = world()
    looked(ports)
    ports.clock.advance(minutes=15)
    first, _ = ports.storage.snapshots
    ports.storage.add_snapshot(replace(ports.storage.snapshots[first], state="error"))
    assert f"{first} ended in error" in looked(ports)
    assert ports.storage.snapshots == {}
    receipt = ports.ledger.receipt(FIRST) or {}
    assert (receipt["outcome"], receipt["kept_nothing_else"]) == ("rolled_back", True)
    assert looked(ports) == f"{FIRST}: rolled_back; the next try is tomorrow"
    ports.clock.advance(hours=24)
    assert looked(ports).startswith("first-snapshots-orders-20261122 began")


def test_a_set_that_is_gone_and_still_listed_is_not_made_again() -> None:
    ports = world()
    looked(ports)
    ports.clock.advance(minutes=15)
    for one in ports.storage.snapshots.values():
        ports.storage.add_snapshot(replace(one, state="error"))
    looked(ports)
    assert ports.storage.snapshots == {}
    ports.clock.advance(seconds=2)
    ports.chance.late = True
    assert looked(ports) == f"{FIRST}: rolled_back; EC2 still lists its snapshots"
    assert (ports.storage.snapshots, len(ports.done("storage.create_snapshots"))) == ({}, 1)


def test_a_set_that_somebody_deleted_is_given_up() -> None:
    ports = world()
    looked(ports)
    ports.clock.advance(minutes=15)
    for snapshot_id in ports.storage.snapshots:
        ports.storage.delete_snapshot(snapshot_id)
    assert "is not there any more" in looked(ports)
    assert (ports.ledger.receipt(FIRST) or {})["outcome"] == "rolled_back"


def test_a_run_that_comes_in_between_is_not_disturbed_and_its_own_set_stays() -> None:
    ports = world()
    looked(ports)
    ports.clock.advance(minutes=1)
    given = leased(ports, "CreateSnapshots")
    assert "LeaseHeld" in looked(ports)
    planned = plan_scale_out(ports, PlanStep(**given.model_dump(exclude={"of"})))
    assert planned.plan["refusals"] == []
    choose_donor(ports, given)
    create_snapshots(ports, given)
    ports.clock.advance(seconds=40)
    record_receipt(
        ports,
        RecordStep(**{**given.model_dump(exclude={"of"}), "step": "RecordReceipt"}, outcome="succeeded"),
    )
    ports.lease.release(given.holder, ports.clock.now())
    assert looked(ports) == f"{RUN_ID} left a set of its own"
    assert [one.run_id for one in ports.ledger.snapshot_sets("orders")] == [RUN_ID]
    assert {one.tags[RUN_TAG] for one in ports.storage.snapshots.values()} == {RUN_ID}


def test_a_cluster_that_is_not_deployed_any_more_leaves_nothing() -> None:
    ports = completed(world())
    assert looked_at_removed(ports) == "no cluster was removed"
    del ports.clusters.by_name["orders"]
    assert "the cluster is not in the settings any more" in looked_at_removed(ports)
    assert ports.storage.snapshots == {}
    assert ports.ledger.snapshot_sets("orders") == []
    assert looked_at_removed(ports) == "no cluster was removed"


def test_a_set_goes_within_the_hour_where_none_is_kept_any_more() -> None:
    ports = completed(world())
    ports.clusters.by_name["orders"] = orders(mode="observe", keep_snapshots=False, **NOT_YET)
    assert looked(ports) == f"the snapshots of {FIRST} were deleted: keep_snapshots is false"
    assert ports.storage.snapshots == {}


def test_a_kept_snapshot_that_somebody_deletes_leaves_the_other_as_the_base_of_its_volume() -> None:
    ports = completed(world())
    [kept] = ports.ledger.snapshot_sets("orders")
    ports.clock.advance(hours=1)
    ports.storage.delete_snapshot(kept.snapshots["log"])
    gone = kept.snapshots["log"]
    assert looked(ports) == f"{gone} of {FIRST} are gone, or carry Peaker's tag no more"
    [left] = ports.ledger.snapshot_sets("orders")
    assert (left.snapshots, left.gib) == ({"data": kept.snapshots["data"]}, 2.0)
    assert states_by_volume(ports) == {"data": ResourceState.KEPT, "log": ResourceState.UNDONE}
    assert looked(ports) == "1 kept"


def test_a_set_that_was_just_kept_may_not_be_in_every_list_yet() -> None:
    ports = completed(world())
    ports.clock.advance(minutes=5)
    for record in ports.world.account.snapshots.values():
        record["shown"] = math.inf
    looked(ports)
    assert len(ports.ledger.snapshot_sets("orders")) == 1


def states_by_volume(ports: CalmPorts) -> dict[str, ResourceState]:
    return {row.name: row.state for row in of_kind(ports.ledger.resources(FIRST), ResourceKind.SNAPSHOT)}


def planned_notes(ports: CalmPorts) -> list[str]:
    given = leased(ports, "PlanScaleOut").model_dump()
    plan = plan_scale_out(ports, PlanStep(**{**given, "fencing_token": None})).plan
    return list(plan["notes"])


def test_a_plan_names_the_setting_and_its_price() -> None:
    [note] = planned_notes(world())
    assert note.startswith("one snapshot set is taken while the cluster is observed (keep_snapshots)")
    assert "at most 8 GiB, $0.0005 an hour" in note


def test_a_kept_set_that_somebody_deletes_is_kept_no_more() -> None:
    ports = completed(world())
    ports.clock.advance(hours=1)
    for snapshot_id in ports.storage.snapshots:
        ports.storage.delete_snapshot(snapshot_id)
    looked(ports)
    assert ports.ledger.snapshot_sets("orders") == []
    assert set(states_by_volume(ports).values()) == {ResourceState.UNDONE}


def test_the_receipt_counts_and_prices_it() -> None:
    ports = completed(world())
    receipt = ports.ledger.receipt(FIRST) or {}
    assert (receipt["operation"], receipt["outcome"]) == ("first_snapshots", "succeeded")
    assert [(one["kind"], one["state"]) for one in receipt["resources"]] == [("snapshot", "kept")] * 2
    assert receipt["kept_nothing_else"]
    assert (receipt["cost"]["snapshots_gib"], receipt["cost"]["hourly"]) == (4.0, 0.0)
    assert receipt["cost"]["snapshots_hourly"] == pytest.approx(4.0 * 0.05 / 730, abs=1e-4)
