"""What a refill compared its replica's volumes by goes when it has ended; the donor's set is the batch's and stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.run import RecordStep, StepInput
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.tear_down import TearDown, delete_own_snapshots, tear_down

from peaker_contract import errors
from peaker_contract.tags import OWNER_TAG
from tests.support.fakes import FakePorts
from tests.support.refills import (
    REFILL,
    SECOND,
    VOLUMES,
    of_run,
    of_second,
    with_own_snapshots,
)


def refill(second: bool) -> tuple[FakePorts, StepInput]:
    """Its own snapshots are taken and complete; the step that ends it, as the first or as the second member."""
    ports = with_own_snapshots(second)
    ports.clock.advance(minutes=10)
    return ports, (of_second if second else of_run)(ports, "RecordReceipt")


def own(ports: FakePorts) -> list[Snapshot]:
    return [one for one in ports.storage.snapshots.values() if one.source_volume_id in VOLUMES]


def deleted(ports: FakePorts, step: StepInput) -> list[str]:
    job = TearDown(ports, holder_of(step), ports.clusters.settings("orders"), step.run_id)
    return delete_own_snapshots(job, ports.ledger.resources(step.run_id))


def states(ports: FakePorts, run_id: str, kind: ResourceKind) -> set[ResourceState]:
    return {row.state for row in of_kind(ports.ledger.resources(run_id), kind)}


@pytest.mark.parametrize("second", [False, True])
def test_its_own_go_and_the_donors_two_sets_stay(second: bool) -> None:
    ports, step = refill(second)
    assert len(deleted(ports, step)) == 2
    assert deleted(ports, step) == []
    assert own(ports) == []
    assert len(ports.storage.snapshots) == 4, "what it was made from, and the batch's"
    assert states(ports, step.run_id, ResourceKind.OWN_SNAPSHOT) == {ResourceState.UNDONE}
    assert states(ports, REFILL, ResourceKind.SNAPSHOT) == {ResourceState.MADE}


@pytest.mark.parametrize("second", [False, True])
def test_one_more_of_a_call_whose_answer_was_lost_goes_too(second: bool) -> None:
    ports, step = refill(second)
    first = own(ports)[0]
    ports.storage.snapshots["snap-second"] = replace(first, snapshot_id="snap-second")
    deleted(ports, step)
    assert own(ports) == []


def test_a_build_beside_the_refill_has_none_and_deletes_none() -> None:
    ports, step = refill(second=True)
    assert deleted(ports, step.model_copy(update={"run_id": REFILL, "batch": None})) == []
    assert len(own(ports)) == 2


def test_one_that_is_not_ours_by_its_tags_is_left_alone() -> None:
    ports, step = refill(second=False)
    first = own(ports)[0]
    ports.storage.snapshots[first.snapshot_id] = replace(first, tags={**first.tags, OWNER_TAG: "prod"})
    with pytest.raises(errors.NotOwned, match="peaker:owner is 'prod'"):
        deleted(ports, step)
    assert [one.snapshot_id for one in own(ports)] == [first.snapshot_id]


def test_one_that_cannot_be_deleted_is_named_and_the_other_goes() -> None:
    ports, step = refill(second=False)
    first = own(ports)[0].snapshot_id
    ports.storage.undeletable[first] = errors.AwsCallRejected(f"{first}: InvalidSnapshot.InUse")
    with pytest.raises(errors.AwsCallRejected, match=first):
        deleted(ports, step)
    assert [one.snapshot_id for one in own(ports)] == [first]


def test_the_undo_of_a_member_leaves_the_set_that_the_batch_shares() -> None:
    ports, step = refill(second=True)
    settings = ports.clusters.settings("orders")
    job = TearDown(ports, holder_of(step), settings, SECOND, shares_snapshots=True)
    assert len(tear_down(job)) == 2
    assert tear_down(job) == []
    assert (own(ports), len(ports.storage.snapshots)) == ([], 4)


def test_the_undo_of_the_whole_run_takes_its_set_and_its_own_but_not_what_is_kept() -> None:
    ports, step = refill(second=False)
    job = TearDown(ports, holder_of(step), ports.clusters.settings("orders"), REFILL)
    while tear_down(job):
        pass
    [kept] = ports.ledger.snapshot_sets("orders")
    assert set(ports.storage.snapshots) == set(kept.snapshot_ids)


@pytest.mark.parametrize("second", [False, True])
def test_one_that_cannot_be_deleted_does_not_fail_a_replica_that_serves(second: bool) -> None:
    ports, step = refill(second)
    first = own(ports)[0].snapshot_id
    ports.storage.undeletable[first] = errors.AwsCallRejected(f"{first}: InvalidSnapshot.InUse")
    record_receipt(ports, RecordStep(**step.model_dump(), outcome="succeeded"))
    receipt = ports.ledger.receipt(step.run_id)
    assert receipt is not None
    assert f"a snapshot that nobody uses stays: {first}: InvalidSnapshot.InUse" in receipt["notes"]
