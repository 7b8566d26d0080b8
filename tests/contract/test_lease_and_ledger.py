"""Lease and ledger: one suite for a table in memory and for DynamoDB."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import Holder, ResourceKind, ResourceState
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker.ports.ledger import Lease, Ledger

from peaker_contract.errors import LeaseHeld, LeaseLost, LeaseSettling, LedgerInconsistent, Throttled
from sim.table import MemoryTable
from sim.workflows.virtual_time import START as NOON
from tests.contract.run_parts import DONOR, RUN

HOUR = timedelta(hours=1)


def test_a_free_lease_is_taken_and_shows_its_holder(lease: Lease) -> None:
    assert lease.current("orders", NOON) is None
    holder = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    assert lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR) == holder
    found = lease.current("orders", NOON)
    assert found is not None
    assert (found.run_id, found.operation, found.fencing_token) == (
        "run-1",
        "scale_out",
        holder.fencing_token,
    )
    assert found.held_until == NOON + HOUR


def test_another_run_is_told_who_holds_it_until_when(lease: Lease) -> None:
    lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    with pytest.raises(LeaseHeld, match=r"scale_out run-1.*21 Nov 13:00 UTC"):
        lease.acquire("orders", "run-2", "scale_in", NOON, NOON + HOUR)
    assert lease.acquire("payments", "run-2", "scale_in", NOON, NOON + HOUR).cluster == "payments"


def test_the_token_grows_from_holder_to_holder(lease: Lease) -> None:
    first = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    lease.release(first, NOON)
    second = lease.acquire("orders", "run-2", "scale_out", NOON, NOON + HOUR)
    third = lease.acquire("orders", "run-3", "scale_out", NOON + HOUR, NOON + 2 * HOUR)
    assert first.fencing_token < second.fencing_token < third.fencing_token


def test_another_run_waits_until_the_last_call_of_the_one_before_has_ended(lease: Lease) -> None:
    minute = timedelta(minutes=1)
    first = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    lease.release(first, NOON + minute)
    assert lease.current("orders", NOON) is None
    for fence in (False, True):
        with pytest.raises(LeaseSettling, match=r"run-1.*21 Nov 12:01 UTC"):
            lease.acquire("orders", "run-2", "scale_in", NOON, NOON + HOUR, fence=fence)
    again = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    assert again.fencing_token > first.fencing_token
    lease.release(again, NOON + minute)
    later = lease.acquire("orders", "run-2", "scale_in", NOON + minute, NOON + HOUR)
    assert later.fencing_token > again.fencing_token
    with pytest.raises(LeaseHeld):
        lease.acquire("orders", "run-3", "scale_in", NOON + minute, NOON + HOUR)


@pytest.mark.parametrize(("run_id", "seconds"), [("run-1", 60), ("run-2", 0)])
def test_a_lease_that_came_free_between_the_write_and_the_look_is_asked_for_again(
    lease: Lease, monkeypatch: pytest.MonkeyPatch, run_id: str, seconds: int
) -> None:
    """Its last run need not wait for itself, and another one not for a time that has passed."""
    lease.release(
        lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR), NOON + timedelta(seconds=seconds)
    )

    def refused(*_: object) -> None:
        raise ConditionFailed

    monkeypatch.setattr(LedgerTable, "update_if", refused)
    monkeypatch.setattr(MemoryTable, "update_if", refused)
    with pytest.raises(Throttled, match="changed hands just now"):
        lease.acquire("orders", run_id, "scale_out", NOON, NOON + HOUR)


def test_who_gave_the_lease_back_itself_does_not_wait(lease: Lease) -> None:
    """A scheduled function goes from one run to the next; all that it did for the first is done."""
    first = lease.acquire("orders", "run-1", "sweep", NOON, NOON + HOUR, fence=True)
    lease.release(first, NOON + HOUR)
    second = lease.acquire("orders", "run-2", "sweep", NOON, NOON + HOUR, fence=True, after=first)
    lease.release(second, NOON + HOUR)
    with pytest.raises(LeaseSettling, match="run-2"):
        lease.acquire("orders", "run-3", "sweep", NOON, NOON + HOUR, fence=True, after=first)


def test_a_fenced_run_keeps_the_lease_with_a_new_token(lease: Lease, ledger: Ledger, holder: Holder) -> None:
    fenced = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR, fence=True)
    assert fenced.fencing_token > holder.fencing_token
    with pytest.raises(LeaseLost):
        ledger.settle(holder, DONOR)
    ledger.settle(fenced, DONOR)


def test_a_lease_that_is_held_for_seconds_only_is_waited_for(lease: Lease) -> None:
    lease.acquire("orders", "sweep-1", "sweep", NOON, NOON + HOUR)
    with pytest.raises(Throttled, match="sweep holds the lease for some seconds"):
        lease.acquire("orders", "run-2", "scale_out", NOON, NOON + HOUR)


def test_a_run_is_unfinished_until_it_ended_and_again_while_its_undo_is_incomplete(
    ledger: Ledger, holder: Holder
) -> None:
    assert [run.run_id for run in ledger.unfinished_runs("orders")] == ["run-1"]
    ledger.close_run(holder, "undo_incomplete", NOON)
    assert [run.outcome for run in ledger.unfinished_runs("orders")] == ["undo_incomplete"]
    ledger.close_run(holder, "rolled_back", NOON + HOUR)
    assert (ledger.run("run-1").outcome, ledger.run("run-1").finished_at) == ("rolled_back", NOON + HOUR)
    assert ledger.unfinished_runs("orders") == []
    assert ledger.unfinished_runs("billing") == []


def test_releasing_what_is_not_held_any_more_changes_nothing(lease: Lease) -> None:
    first = lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR)
    lease.release(first, NOON)
    lease.acquire("orders", "run-2", "scale_out", NOON, NOON + HOUR)
    lease.release(first, NOON)
    found = lease.current("orders", NOON)
    assert found is not None
    assert found.run_id == "run-2"


def test_a_run_is_opened_once(lease: Lease, ledger: Ledger, holder: Holder) -> None:
    ledger.open_run(holder, replace(RUN, started_at=NOON + HOUR))
    assert ledger.run("run-1") == RUN
    with pytest.raises(LedgerInconsistent, match="no run run-9"):
        ledger.run("run-9")


def test_a_step_keeps_its_first_start_its_last_end_and_moves_the_lease(
    lease: Lease, ledger: Ledger, holder: Holder
) -> None:
    later = NOON + timedelta(minutes=5)
    ledger.start_step(holder, "AttachVolumes", NOON, NOON + 2 * HOUR)
    ledger.start_step(holder, "AttachVolumes", later, NOON + 3 * HOUR)
    assert ledger.steps("run-1")[0].finished_at is None
    ledger.finish_step(holder, "AttachVolumes", later, {"attached": {"data": "vol-1"}, "rate": 1.5})
    row = ledger.steps("run-1")[0]
    assert (row.started_at, row.finished_at) == (NOON, later)
    assert row.numbers == {"attached": {"data": "vol-1"}, "rate": 1.5}
    found = lease.current("orders", NOON)
    assert found is not None
    assert found.held_until == NOON + 3 * HOUR


def test_members_of_a_batch_end_their_steps_at_the_same_time(ledger: Ledger, holder: Holder) -> None:
    """All of them name the lease of their batch: DynamoDB lets one such transaction through and cancels the rest."""
    members = [replace(holder, run_id=f"run-1-m{number}", batch=holder.run_id) for number in range(8)]
    begin = threading.Barrier(len(members))

    def end_a_step(member: Holder) -> None:
        begin.wait()
        ledger.start_step(member, "AttachVolumes", NOON, NOON + HOUR)
        ledger.finish_step(member, "AttachVolumes", NOON, {"attached": 1})

    with ThreadPoolExecutor(len(members)) as pool:
        list(pool.map(end_a_step, members))
    assert all(ledger.steps(member.run_id)[0].finished_at == NOON for member in members)


def test_steps_come_in_order_of_their_start(ledger: Ledger, holder: Holder) -> None:
    for minutes, step in ((3, "B"), (1, "C"), (2, "A")):
        ledger.start_step(holder, step, NOON + timedelta(minutes=minutes), NOON + HOUR)
    assert [row.step for row in ledger.steps("run-1")] == ["C", "A", "B"]


def test_an_intent_is_written_once_and_then_made(ledger: Ledger, holder: Holder) -> None:
    row = ledger.intend(holder, ResourceKind.VOLUME, "data", "CreateVolumes", NOON, {"zone": "a"})
    again = ledger.intend(holder, ResourceKind.VOLUME, "data", "CreateVolumes", NOON + HOUR, {"zone": "b"})
    assert again == row
    assert (row.state, row.resource_id, row.details) == (ResourceState.INTENDED, None, {"zone": "a"})
    made = ledger.made(holder, row, "vol-1", NOON + timedelta(minutes=1))
    assert ledger.resources("run-1") == [made]
    assert (made.state, made.resource_id) == (ResourceState.MADE, "vol-1")
    assert ledger.made(holder, made, "vol-1", NOON + HOUR).made_at == NOON + timedelta(minutes=1)


def test_of_two_calls_that_intend_the_same_at_once_both_get_one_row(
    ledger: Ledger, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one looked before the first had written."""
    earlier = ledger.intend(holder, ResourceKind.SNAPSHOT, "log", "CreateSnapshots", NOON, {})
    row = ledger.intend(holder, ResourceKind.VOLUME, "data", "CreateVolumes", NOON, {"zone": "a"})
    with monkeypatch.context() as patched:
        seen, real = iter([[earlier]]), type(ledger).resources
        patched.setattr(type(ledger), "resources", lambda self, run: next(seen, None) or real(self, run))
        again = ledger.intend(holder, ResourceKind.VOLUME, "data", "CreateVolumes", NOON, {"zone": "b"})
    assert again == row
    assert ledger.resources("run-1") == [earlier, row]


def test_a_call_without_a_token_is_claimed_by_one_until_its_answer_is_given_up(
    ledger: Ledger, holder: Holder
) -> None:
    assert ledger.claim(holder, "CreateSnapshots", NOON, NOON + HOUR)
    assert not ledger.claim(holder, "CreateSnapshots", NOON, NOON + HOUR)
    assert ledger.claim(holder, "Another", NOON, NOON + HOUR)
    assert ledger.claim(holder, "CreateSnapshots", NOON + HOUR, NOON + 2 * HOUR)
    assert not ledger.claim(holder, "CreateSnapshots", NOON + HOUR, NOON + 2 * HOUR)


def test_a_replica_is_added_once(ledger: Ledger, holder: Holder) -> None:
    row = ReplicaRow("orders", "i-1", "run-1", ReplicaState.IN_SERVICE, NOON)
    ledger.add_replica(holder, row)
    ledger.add_replica(holder, replace(row, state=ReplicaState.BUILDING))
    assert ledger.replicas("orders") == {"i-1": row}


def test_resources_come_in_the_order_of_their_intents_and_can_be_marked(
    ledger: Ledger, holder: Holder
) -> None:
    kinds = [ResourceKind.SNAPSHOT, ResourceKind.INSTANCE, ResourceKind.VOLUME]
    rows = [ledger.intend(holder, kind, "data", "Any", NOON, {}) for kind in kinds]
    assert [row.kind for row in ledger.resources("run-1")] == kinds
    ledger.mark(holder, "run-1", rows[0], ResourceState.UNDONE)
    assert ledger.resources("run-1")[0].state is ResourceState.UNDONE


def test_a_later_run_marks_what_an_earlier_one_made(lease: Lease, ledger: Ledger, holder: Holder) -> None:
    row = ledger.intend(holder, ResourceKind.VOLUME, "data", "CreateVolumes", NOON, {})
    lease.release(holder, NOON)
    later = lease.acquire("orders", "run-2", "scale_in", NOON, NOON + HOUR)
    ledger.mark(later, "run-1", row, ResourceState.UNDONE)
    assert ledger.resources("run-1")[0].state is ResourceState.UNDONE
    assert ledger.resources("run-2") == []


def test_replicas_and_receipts_are_kept(ledger: Ledger, holder: Holder) -> None:
    row = ReplicaRow("orders", "i-1", "run-1", ReplicaState.BUILDING, NOON)
    ledger.set_replica(holder, row)
    ledger.set_replica(holder, replace(row, state=ReplicaState.IN_SERVICE))
    assert ledger.replicas("orders") == {"i-1": replace(row, state=ReplicaState.IN_SERVICE)}
    assert ledger.receipt("run-1") is None
    ledger.save_receipt(holder, {"cost": {"hourly": 0.13}, "steps": []})
    assert ledger.receipt("run-1") == {"cost": {"hourly": 0.13}, "steps": []}


def test_a_snapshot_set_is_kept_until_it_is_forgotten(lease: Lease, ledger: Ledger, holder: Holder) -> None:
    older = SnapshotSet(
        "orders", "run-0", "i-1", NOON, {"data": "snap-0"}, {"data": "vol-1"}, {"data": 2**30}
    )
    newer = replace(older, run_id="run-1", kept_at=NOON + HOUR, full_bytes={"data": None})
    for one in (newer, older, newer):
        ledger.keep_snapshots(holder, one)
    assert ledger.snapshot_sets("orders") == [older, newer]
    ledger.forget_snapshots(holder, older, NOON + HOUR)
    assert ledger.snapshot_sets("orders") == [newer]
    assert ledger.snapshot_sets("other") == []
    lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR, fence=True)
    with pytest.raises(LeaseLost):
        ledger.forget_snapshots(holder, newer, NOON + HOUR)


def test_a_parked_replica_keeps_what_is_known_of_its_parking(ledger: Ledger, holder: Holder) -> None:
    parking = Parking(
        NOON, "uuid:1-9", 86_400.0, NOON + HOUR, "a limit", spent=None, failed_return="run-3: full"
    )
    row = ReplicaRow("orders", "i-1", "run-1", ReplicaState.PARKED, NOON, parking)
    ledger.set_replica(holder, row)
    assert ledger.replicas("orders") == {"i-1": row}
    endless = replace(parking, until=None, binlog_expire_seconds=None, gtid_set=None)
    for parked in (endless, replace(parking, incomplete_since=NOON)):
        ledger.set_replica(holder, replace(row, parking=parked))
        assert ledger.replicas("orders")["i-1"].parking == parked
    ill = replace(row, state=ReplicaState.IN_SERVICE, parking=None, unhealthy_since=NOON + HOUR)
    ledger.set_replica(holder, ill)
    assert ledger.replicas("orders") == {"i-1": ill}


LATE_WRITES = {
    "open_run": lambda ledger, holder: ledger.open_run(holder, replace(RUN, run_id="run-8")),
    "settle": lambda ledger, holder: ledger.settle(holder, DONOR),
    "close_run": lambda ledger, holder: ledger.close_run(holder, "succeeded", NOON),
    "start_step": lambda ledger, holder: ledger.start_step(holder, "A", NOON, NOON + HOUR),
    "intend": lambda ledger, holder: ledger.intend(holder, ResourceKind.VOLUME, "data", "A", NOON, {}),
    "set_replica": lambda ledger, holder: ledger.set_replica(
        holder, ReplicaRow("orders", "i-1", "run-1", ReplicaState.BUILDING, NOON)
    ),
    "claim": lambda ledger, holder: ledger.claim(holder, "CreateSnapshots", NOON, NOON + HOUR),
    "require_lease": lambda ledger, holder: ledger.require_lease(holder),
    "save_receipt": lambda ledger, holder: ledger.save_receipt(holder, {}),
}


@pytest.mark.parametrize("write", LATE_WRITES)
def test_a_late_writer_fails(lease: Lease, ledger: Ledger, holder: Holder, write: str) -> None:
    lease.acquire("orders", "run-2", "scale_in", NOON + 2 * HOUR, NOON + 3 * HOUR)
    with pytest.raises(LeaseLost):
        LATE_WRITES[write](ledger, holder)


def test_of_many_who_want_it_at_once_one_gets_it(lease: Lease) -> None:
    got, refused = [], []

    def want(number: int) -> None:
        try:
            got.append(lease.acquire("orders", f"run-{number}", "scale_out", NOON, NOON + HOUR))
        except LeaseHeld:
            refused.append(number)

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)


def member_of(holder: Holder, token: int | None = 0) -> Holder:
    return replace(holder, run_id="run-1-2", batch="run-1", member_token=token)


def test_a_member_writes_into_rows_of_its_own_under_the_lease_of_its_batch(
    ledger: Ledger, holder: Holder
) -> None:
    member = member_of(holder)
    ledger.require_lease(member)
    ledger.open_run(member, replace(RUN, run_id="run-1-2"))
    ledger.settle(member, DONOR)
    ledger.intend(member, ResourceKind.INSTANCE, "replica/a", "LaunchReplica", NOON, {})
    assert [row.name for row in ledger.resources("run-1-2")] == ["replica/a"]
    assert ledger.resources("run-1") == []


def test_a_member_that_was_fenced_writes_nothing_more_and_the_others_go_on(
    ledger: Ledger, holder: Holder
) -> None:
    member, other = member_of(holder), replace(member_of(holder), run_id="run-1-3")
    for one in (member, other):
        ledger.open_run(one, replace(RUN, run_id=one.run_id))
    token = ledger.fence_member(member, NOON)
    assert (token, ledger.member_token("run-1-2"), ledger.member_token("run-1-3")) == (1, 1, 0)
    for write in (
        lambda: ledger.settle(member, DONOR),
        lambda: ledger.intend(member, ResourceKind.VOLUME, "data", "CreateVolumes", NOON, {}),
        lambda: ledger.start_step(member, "CreateVolumes", NOON, NOON + HOUR),
        lambda: ledger.require_lease(member),
        lambda: ledger.begin_exit(member, leaving("i-1"), []),
    ):
        with pytest.raises(LeaseLost):
            write()
    ledger.settle(member_of(holder, token), DONOR)
    ledger.settle(other, DONOR)
    ledger.settle(holder, DONOR)


def test_a_fence_of_the_batch_stops_its_members_and_none_of_them_can_fence(
    lease: Lease, ledger: Ledger, holder: Holder
) -> None:
    member = member_of(holder)
    ledger.open_run(member, replace(RUN, run_id="run-1-2"))
    lease.acquire("orders", "run-1", "scale_out", NOON, NOON + HOUR, fence=True)
    with pytest.raises(LeaseLost):
        ledger.settle(member, DONOR)
    with pytest.raises(LeaseLost):
        ledger.fence_member(member, NOON)


def in_service(instance_id: str) -> ReplicaRow:
    return ReplicaRow("orders", instance_id, "run-0", ReplicaState.IN_SERVICE, NOON)


def leaving(instance_id: str) -> ReplicaRow:
    return replace(in_service(instance_id), state=ReplicaState.DRAINING)


def test_of_two_that_count_on_one_another_one_begins_to_leave(ledger: Ledger, holder: Holder) -> None:
    for name in ("i-1", "i-2", "i-3"):
        ledger.set_replica(holder, in_service(name))
    ledger.begin_exit(holder, leaving("i-1"), ["i-2", "i-3"])
    with pytest.raises(Throttled, match="count again"):
        ledger.begin_exit(holder, leaving("i-2"), ["i-1", "i-3"])
    states = {name: row.state.value for name, row in ledger.replicas("orders").items()}
    assert states == {"i-1": "draining", "i-2": "in_service", "i-3": "in_service"}
    ledger.begin_exit(holder, leaving("i-2"), ["i-3"])
    ledger.begin_exit(holder, leaving("i-1"), ["i-3"])
    assert ledger.replicas("orders")["i-2"].state is ReplicaState.DRAINING


def test_who_counts_on_a_replica_without_a_row_does_not_leave(ledger: Ledger, holder: Holder) -> None:
    ledger.set_replica(holder, in_service("i-1"))
    with pytest.raises(Throttled):
        ledger.begin_exit(holder, leaving("i-1"), ["i-9"])
