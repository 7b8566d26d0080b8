"""What stays of a donor's snapshots between runs, and when it goes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.lead_time import predict_lead_time
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.runs.run import FailedStep, PlanStep, RecordStep, StepInput
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs, snapshot_history
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run import kept_snapshots
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract.errors import LeaseLost, UndoInProgress
from peaker_contract.names import DONOR_TAG, OWNER_TAG
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import BASE, leased, orders, with_cluster

FIRST, SECOND = "scale-out-orders-20261121T120000-0001", "scale-out-orders-20261122T120000-0002"


def world(**settings: Any) -> CalmPorts:
    return with_cluster(calm_ports(orders(**settings)))


@pytest.fixture
def ports() -> CalmPorts:
    return world()


def snapshotted(ports: CalmPorts, run_id: str) -> None:
    """A run that has got as far as complete snapshots."""
    ports.clock.advance(hours=24)
    plan = leased(ports, "PlanScaleOut", run_id=run_id)
    plan_scale_out(ports, PlanStep(**plan.model_dump()))
    choose_donor(ports, leased(ports, "ChooseDonor", run_id=run_id))
    create_snapshots(ports, leased(ports, "CreateSnapshots", run_id=run_id))
    ports.clock.advance(seconds=40)


def recorded(ports: CalmPorts, run_id: str) -> list[str]:
    """The notes of both tries of the receipt's step; the lease is given back."""
    given = leased(ports, "RecordReceipt", run_id=run_id)
    notes = []
    for _ in range(2):
        with suppress(UndoInProgress):
            record_receipt(ports, RecordStep(**given.model_dump(), outcome="succeeded"))
            receipt = ports.ledger.receipt(run_id) or {}
            assert receipt["kept_nothing_else"]
            notes += receipt["notes"]
    ports.lease.release(given.holder, ports.clock.now())
    return notes


def succeeded(ports: CalmPorts, run_id: str) -> list[str]:
    snapshotted(ports, run_id)
    return recorded(ports, run_id)


def states(ports: CalmPorts, run_id: str) -> set[ResourceState]:
    return {row.state for row in of_kind(ports.ledger.resources(run_id), ResourceKind.SNAPSHOT)}


def test_the_next_set_takes_its_place_once_it_is_complete_and_its_run_has_succeeded(ports: CalmPorts) -> None:
    succeeded(ports, FIRST)
    snapshotted(ports, SECOND)
    assert len(ports.storage.snapshots) == 4
    assert any(f"the snapshots of {FIRST} were deleted" in note for note in recorded(ports, SECOND))
    assert len(ports.storage.snapshots) == 2
    assert [one.run_id for one in ports.ledger.snapshot_sets("orders")] == [SECOND]
    assert (states(ports, FIRST), states(ports, SECOND)) == ({ResourceState.UNDONE}, {ResourceState.KEPT})


def test_a_late_call_of_a_fenced_run_deletes_no_set(
    ports: CalmPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is undone, so that the older set is the newest one again."""
    succeeded(ports, FIRST)
    snapshotted(ports, SECOND)
    given = leased(ports, "RecordReceipt", run_id=SECOND)
    volumes = kept_snapshots.volumes_of_donors

    def fenced_meanwhile(*known: Any) -> dict[str, list[str]]:
        now = ports.clock.now()
        ports.lease.acquire("orders", SECOND, "scale_out", now, now + timedelta(hours=1), fence=True)
        return volumes(*known)

    monkeypatch.setattr(kept_snapshots, "volumes_of_donors", fenced_meanwhile)
    with pytest.raises(LeaseLost):
        record_receipt(ports, RecordStep(**given.model_dump(), outcome="succeeded"))
    assert len(ports.storage.snapshots) == 4


def test_a_failed_run_leaves_the_older_set_and_none_of_its_own(ports: CalmPorts) -> None:
    succeeded(ports, FIRST)
    snapshotted(ports, SECOND)
    failure = Failure(failed_step="StartPrewarm", error="HostCommandFailed", cause="no")
    given = leased(ports, "UndoScaleOut", run_id=SECOND).model_dump()
    for _ in range(2):
        with suppress(UndoInProgress):
            undo_run(ports, FailedStep(**given, failure=failure))
    assert [one.run_id for one in ports.ledger.snapshot_sets("orders")] == [FIRST]
    assert len(ports.storage.snapshots) == 2


def test_a_set_goes_with_its_donor_at_the_end_of_the_next_run_of_any_kind(ports: CalmPorts) -> None:
    succeeded(ports, FIRST)
    for record in ports.world.account.volumes.values():
        record["history"] = [(0.0, "deleted")]
    given = leased(ports, "RecordReceipt", "scale_in", "scale-in-orders-1")
    record_receipt(ports, RecordStep(**given.model_dump(), outcome="refused"))
    assert ports.storage.snapshots == {}
    assert states(ports, FIRST) == {ResourceState.UNDONE}


def test_a_snapshot_that_is_not_ours_by_its_tags_is_left_alone(ports: CalmPorts) -> None:
    """I1"""
    succeeded(ports, FIRST)
    for one in ports.storage.snapshots.values():
        ports.storage.add_snapshot(replace(one, tags={**one.tags, OWNER_TAG: "prod"}))
    succeeded(ports, SECOND)
    assert len(ports.storage.snapshots) == 4


def test_a_refusal_of_a_cluster_that_has_left_the_settings_still_has_its_receipt(ports: CalmPorts) -> None:
    succeeded(ports, FIRST)
    given = leased(ports, "RecordReceipt", "scale_in", "scale-in-orders-1")
    ports.clusters.by_name.clear()
    record_receipt(ports, RecordStep(**given.model_dump(), outcome="refused"))
    receipt = ports.ledger.receipt("scale-in-orders-1")
    assert receipt is not None
    assert "were not looked at" in receipt["notes"][0]


def numbers(ports: CalmPorts, run_id: str) -> dict[str, Any]:
    return await_snapshots(ports, leased(ports, "AwaitSnapshots", run_id=run_id)).numbers


def test_the_first_set_is_a_full_copy_and_the_next_one_an_increment(ports: CalmPorts) -> None:
    snapshotted(ports, FIRST)
    assert numbers(ports, FIRST)["full_copy"] is True
    recorded(ports, FIRST)
    snapshotted(ports, SECOND)
    assert numbers(ports, SECOND)["full_copy"] is False


def test_the_plan_has_the_price_of_what_stays_and_the_budget_counts_it(ports: CalmPorts) -> None:
    """Two volumes of 4 GiB at 0.05 USD a month."""
    plan = plan_scale_out(ports, PlanStep(**leased(ports, "PlanScaleOut").model_dump())).plan
    assert plan["price"]["snapshots_gib"] == 8
    assert plan["price"]["snapshots_hourly"] == pytest.approx(8 * 0.05 / 730, abs=1e-4)
    replica_hour = plan["price"]["hourly"]
    limits = {
        "max_hourly_cost_usd": replica_hour + 1e-4,
        "minimum_lifetime_minutes": 0,
        "prewarm_deadline_minutes": 15,
    }
    tight = world(limits=limits)
    planned = plan_scale_out(tight, PlanStep(**unleased(tight).model_dump())).plan
    assert [one["reason"] for one in planned["refusals"] if "of kept snapshots" in one["reason"]]
    free = world(limits=limits, keep_snapshots=False)
    assert plan_scale_out(free, PlanStep(**unleased(free).model_dump())).plan["refusals"] == []


def unleased(ports: CalmPorts) -> StepInput:
    return leased(ports, "PlanScaleOut").model_copy(update={"fencing_token": None})


def test_the_next_plan_expects_an_increment_where_the_first_expected_a_full_copy(ports: CalmPorts) -> None:
    def snapshot_seconds(past: PastSteps) -> float:
        settings = ports.clusters.settings("orders")
        seen = gather_fleet(ports, settings, with_volumes=True)
        inputs = lead_time_inputs(settings, seen, past, snapshot_history(ports, settings, seen))
        return predict_lead_time(inputs, past).component("snapshot").p50_seconds

    # 60 s and 4 GiB of each of the two volumes at 100 MiB/s.
    assert snapshot_seconds(PastSteps()) == pytest.approx(60 + 41, abs=1)
    succeeded(ports, FIRST)
    ports.clock.advance(hours=24)
    # The snapshots hold two GiB each, of which 15 % change in a day; the full copy of before says nothing of that.
    assert snapshot_seconds(PastSteps(full_copies=[140.0])) == pytest.approx(60 + 3, abs=0.5)
    assert snapshot_seconds(PastSteps(full_copies=[140.0], increments=[64.0])) == 64


def test_a_run_that_succeeded_leaves_its_set_and_says_so(ports: CalmPorts) -> None:
    notes = succeeded(ports, FIRST)
    assert any(f"the next snapshots of {BASE} copy only changes" in note for note in notes)
    assert {one.tags[DONOR_TAG] for one in ports.storage.snapshots.values()} == {BASE}
    [kept] = ports.ledger.snapshot_sets("orders")
    assert (kept.donor, set(kept.snapshots), kept.gib) == (BASE, {"data", "log"}, 4.0)
    assert states(ports, FIRST) == {ResourceState.KEPT}


def test_a_snapshot_that_somebody_deleted_before_the_end_of_the_run_is_not_kept(ports: CalmPorts) -> None:
    snapshotted(ports, FIRST)
    log = next(one for one in ports.storage.snapshots.values() if one.source_volume_id == "vol-log-0001")
    ports.storage.delete_snapshot(log.snapshot_id)
    recorded(ports, FIRST)
    [kept] = ports.ledger.snapshot_sets("orders")
    assert (set(kept.snapshots), kept.manifest) == ({"data"}, {})
    assert states(ports, FIRST) == {ResourceState.KEPT, ResourceState.UNDONE}


def test_retiring_the_replica_leaves_the_set_of_its_donor(ports: CalmPorts) -> None:
    succeeded(ports, FIRST)
    given = leased(ports, "RetireReplica", "scale_in", "scale-in-orders-1")
    job = TearDown(ports, given.holder, ports.clusters.settings("orders"), FIRST, drained=True)
    assert tear_down(job) == []
    assert len(ports.storage.snapshots) == 2
    assert states(ports, FIRST) == {ResourceState.KEPT}
