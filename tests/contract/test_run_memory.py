"""What a run's steps settle for later ones: one suite for the fake and for DynamoDB."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from peaker.adapters.dynamodb.items import LedgerTable, run_key
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.limits.admission import Admission, VolumeRates
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.approval import ApprovalAsked
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Holder, ResourceKind, RunPart
from peaker.domain.runs.run import FailedStep
from peaker.domain.runs.run_memory import (
    DatabaseStop,
    Donor,
    DonorTables,
    EndpointExit,
    Placement,
    Removal,
    RunReplica,
    Source,
    Waking,
)
from peaker.domain.service.leftovers import TakenUp
from peaker.domain.service.ramp import Ramp
from peaker.domain.storage.refill_writes import RefillEnd
from peaker.domain.storage.set_manifest import SetManifest
from peaker.ports import Lease, Ledger
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract.errors import LedgerInconsistent, Throttled, UndoInProgress
from peaker_contract.tags import OWNER_TAG, RUN_TAG
from tests.contract.run_parts import DONOR, LATER, ONE_OF_EACH, PLAN, RUN
from tests.support.builders import instance, orders, with_cluster
from tests.support.fakes import NOON, FakeClock, fake_ports

COLUMNS_OF_A_RUN = {
    "pk",
    "sk",
    "run_id",
    "cluster",
    "operation",
    "trigger",
    "outcome",
    "started_at",
    "finished_at",
}
COLUMNS_OF_A_RUN |= {"expires_at", "request", "facts"}


def test_one_of_each_part_is_here_and_no_two_have_one_name() -> None:
    assert {type(part) for part in ONE_OF_EACH} == set(RunPart.__subclasses__())
    names = [part.ledger_name for part in ONE_OF_EACH]
    assert len(set(names)) == len(names)
    assert not set(names) & COLUMNS_OF_A_RUN


@pytest.mark.parametrize("part", ONE_OF_EACH, ids=lambda part: str(part.ledger_name))
def test_a_part_comes_back_as_it_was_settled(ledger: Ledger, holder: Holder, part: RunPart) -> None:
    assert ledger.run("run-1").part(type(part)) is None
    ledger.settle(holder, part)
    assert ledger.run("run-1").required(type(part), "AnyStep") == part


def test_what_was_settled_stays_beside_what_is_settled_later(ledger: Ledger, holder: Holder) -> None:
    for part in ONE_OF_EACH:
        ledger.settle(holder, part)
    ledger.settle(holder, Placement(zone="us-east-1b"))
    run = ledger.run("run-1")
    assert run.required(Placement, "CreateVolumes").zone == "us-east-1b"
    assert len(run.parts) == len(ONE_OF_EACH)


def test_a_choice_that_is_made_once_stays_as_it_was_first_made(ledger: Ledger, holder: Holder) -> None:
    first = RunReplica(instance_id="i-1", builder="run-0", running_since=NOON)
    second = RunReplica(instance_id="i-2", builder="run-0", running_since=NOON)
    assert ledger.settle_first(holder, first) == first
    assert ledger.settle_first(holder, second) == first
    assert ledger.run("run-1").part(RunReplica) == first


def test_a_step_that_lacks_a_part_says_which_step_and_which_part(ledger: Ledger, holder: Holder) -> None:
    ledger.settle(holder, DONOR)
    with pytest.raises(LedgerInconsistent, match="run-1: CreateVolumes needs placement"):
        ledger.run("run-1").required(Placement, "CreateVolumes")


def test_a_part_that_cannot_be_read_says_which_and_is_in_nobody_elses_way() -> None:
    parts = {"donor": DONOR.model_dump_json(), "source": '{"instance_id": 7}'}
    run = replace(RUN, parts=parts)
    assert run.part(Donor) == DONOR
    with pytest.raises(LedgerInconsistent, match=r"run-1: the ledger's source cannot be read: .*private_ip"):
        run.part(Source)


def test_branches_that_settle_side_by_side_lose_nothing(ledger: Ledger, holder: Holder) -> None:
    begin = threading.Barrier(len(ONE_OF_EACH))

    def branch(part: RunPart) -> None:
        begin.wait()
        while True:
            try:
                return ledger.settle(holder, part)
            except Throttled:  # the state's Retry calls the step again
                continue

    branches = [threading.Thread(target=branch, args=(part,)) for part in ONE_OF_EACH]
    for one in branches:
        one.start()
    for one in branches:
        one.join()
    run = ledger.run("run-1")
    assert [run.part(type(part)) for part in ONE_OF_EACH] == list(ONE_OF_EACH)


def test_a_part_of_a_run_that_was_never_opened_is_refused(
    lease: Lease, ledger: Ledger, holder: Holder
) -> None:
    lease.release(holder, NOON)
    unopened = lease.acquire("orders", "run-9", "scale_out", NOON, LATER)
    with pytest.raises(LedgerInconsistent, match="run-9"):
        ledger.settle(unopened, DONOR)


class OfDynamoDb:
    """The adapter alone."""

    @pytest.fixture(params=["dynamodb"])
    def store(self, request: pytest.FixtureRequest, ledger_table: LedgerTable) -> tuple[Lease, Ledger]:
        return DynamoDbLease(ledger_table), DynamoDbLedger(ledger_table)


class TestWriting(OfDynamoDb):
    def test_parts_are_written_by_one_call_without_a_read(
        self, ledger: Ledger, holder: Holder, ledger_table: LedgerTable
    ) -> None:
        with calls_of(ledger_table) as called:
            ledger.settle(holder, DONOR, Placement(zone="us-east-1a"))
        assert called == ["TransactWriteItems"]


class TestYearsLater(OfDynamoDb):
    def test_a_replica_that_serves_for_years_can_still_be_retired_by_what_built_it(
        self, ledger: Ledger, holder: Holder, ledger_table: LedgerTable
    ) -> None:
        """DynamoDB drops items within days of the time in their TTL attribute (developer guide, time to live)."""
        ledger.settle(holder, DONOR)
        for kind in (ResourceKind.INSTANCE, ResourceKind.VOLUME, ResourceKind.COMMAND):
            row = ledger.intend(holder, kind, "data", "Any", NOON, {})
            ledger.made(holder, row, f"{kind.value}-1", NOON)
        ledger.start_step(holder, "CreateVolumes", NOON, LATER)
        drop_expired(ledger_table, NOON + timedelta(days=2 * 365))
        assert ledger.run("run-1").part(type(DONOR)) == DONOR
        assert [row.kind for row in ledger.resources("run-1")] == [ResourceKind.INSTANCE, ResourceKind.VOLUME]
        assert ledger.steps("run-1") == []


def drop_expired(table: LedgerTable, now: datetime) -> None:
    """What DynamoDB does with a table whose TTL attribute is expires_at."""
    client = table._dynamodb
    for item in client.scan(TableName=table._table)["Items"]:
        if "expires_at" in item and int(item["expires_at"]["N"]) < now.timestamp():
            client.delete_item(TableName=table._table, Key={"pk": item["pk"], "sk": item["sk"]})


@contextmanager
def calls_of(table: LedgerTable) -> Iterator[list[str]]:
    """Names of the operations that are called meanwhile."""
    called: list[str] = []
    events = table._dynamodb.meta.events
    note = partial(lambda model, **_: called.append(model.name))
    events.register("before-call.dynamodb", note)
    try:
        yield called
    finally:
        events.unregister("before-call.dynamodb", note)


# As the version before wrote it: all parts in one attribute, and the replica in three shapes.
STARTED = "2026-11-21T12:05:00+00:00"
CHOSEN = {"instance_id": "i-3", "run_id": "run-0", "launched_at": STARTED}
RETURNED = {**CHOSEN, "zone": "us-east-1a", "private_ip": "10.77.1.9"}
LAUNCHED = {name: value for name, value in RETURNED.items() if name != "run_id"}
FACTS: dict[str, Any] = {
    "donor": {"instance_id": "i-1", "volumes": {"data": "vol-1"}, "sizes_gib": {"data": 4}},
    "source": {"instance_id": "i-2", "private_ip": "10.77.2.20"},
    "block_list": {"blocks": {"data": 9}},
    "storage_looks": {
        "looks": [{"at": STARTED, "verdict": "unknown", "reason": "", "remedy": "none"}],
        "next": {"remedy": "cold", "sample_blocks": 256, "pause_seconds": 0, "why": ""},
    },
    "ramp": {"since": STARTED, "index": 2, "history": [{"share": 0.1}]},
    "quiet": {"since": "2026-11-21T12:05:00Z", "client_statements": 7},
    "disposal": {"action": "park", "policy": "auto", "reason": "", "figures": {
        "return_seconds": 90, "build_seconds": 3600, "catch_up_per_hour": 10, "parked_hourly_usd": None,
        "serving_hourly_usd": None, "rebuild_usd": None}},
    "database_stopped": {"at": "2026-11-21T12:05:00Z"},
    "left_endpoint_at": "2026-11-21T12:05:00Z",
    "planned_gib": 8.0,
}  # fmt: skip


def open_as_before(table: LedgerTable, holder: Holder, facts: Mapping[str, Any], plan: str = "{}") -> None:
    """The row of run 1 as the version before left it."""
    request = {"reason": "by hand", "trigger": {"kind": "manual", "alarm": None}, "unknown_by_now": 1}
    table.put(
        holder,
        {
            "pk": run_key("run-1"), "sk": "run", "run_id": "run-1", "cluster": "orders", "operation": "scale_out",
            "trigger": "manual", "outcome": "running", "started_at": "2026-11-21T12:00:00Z", "expires_at": 1,
            "request": json.dumps(request), "plan": plan, "facts": json.dumps(facts),
        },
    )  # fmt: skip


class TestARunOfTheVersionBefore(OfDynamoDb):
    """An upgrade in the middle of a run, which may take days."""

    def test_every_part_is_found(self, ledger: Ledger, holder: Holder, ledger_table: LedgerTable) -> None:
        open_as_before(ledger_table, holder, {**FACTS, "replica": LAUNCHED}, PLAN.model_dump_json())
        run = ledger.run("run-1")
        at = datetime.fromisoformat(STARTED)
        assert {type(one) for one in ONE_OF_EACH if run.part(type(one)) is None} == {
            ApprovalAsked,
            TakenUp,
            SetManifest,
            RefillEnd,
            Batch,
            Member,
            Removal,
            Admission,
            VolumeRates,
            Waking,
            DonorTables,
        }
        assert run.part(Donor) == DONOR
        ramp = run.required(Ramp, "RampTraffic")
        assert (ramp.since, ramp.share_since, ramp.index) == (at, at, 2)
        assert run.required(EndpointExit, "UndoScaleOut").at == at
        assert run.required(DatabaseStop, "ParkReplica").at == at
        assert (run.request.cluster, run.request.reason) == ("orders", "by hand")

    @pytest.mark.parametrize(
        ("shape", "builder", "zone"),
        [(LAUNCHED, "run-1", "us-east-1a"), (RETURNED, "run-0", "us-east-1a"), (CHOSEN, "run-0", None)],
        ids=["launched", "returned", "chosen"],
    )
    def test_a_replica_of_any_shape_is_one(
        self,
        ledger: Ledger,
        holder: Holder,
        ledger_table: LedgerTable,
        shape: Any,
        builder: str,
        zone: str | None,
    ) -> None:
        open_as_before(ledger_table, holder, {"replica": shape})
        run = ledger.run("run-1")
        expected = RunReplica(
            instance_id="i-3", builder=builder, running_since=datetime.fromisoformat(STARTED)
        )
        assert run.part(RunReplica) == expected
        placement = run.part(Placement)
        assert (placement and placement.zone) == zone

    def test_what_is_settled_after_the_upgrade_counts(
        self, ledger: Ledger, holder: Holder, ledger_table: LedgerTable
    ) -> None:
        open_as_before(ledger_table, holder, FACTS)
        moved = Donor(instance_id="i-9", volumes={"data": "vol-9"})
        ledger.settle(holder, moved)
        run = ledger.run("run-1")
        assert run.part(Donor) == moved
        assert run.required(Source, "StartReplication").instance_id == "i-2"

    def test_nothing_settled_is_nothing(
        self, ledger: Ledger, holder: Holder, ledger_table: LedgerTable
    ) -> None:
        open_as_before(ledger_table, holder, {})
        assert ledger.run("run-1").parts == {}

    def test_the_undo_takes_away_what_it_made(
        self, ledger: Ledger, lease: Lease, holder: Holder, ledger_table: LedgerTable
    ) -> None:
        ports = with_cluster(fake_ports(orders()))
        ports = replace(ports, ledger=ledger, lease=lease)
        open_as_before(ledger_table, holder, {**FACTS, "replica": LAUNCHED}, PLAN.model_dump_json())
        tags = {OWNER_TAG: "local", RUN_TAG: "run-1"}
        ports.compute.add(instance("i-3", tags=tags))
        row = ledger.intend(holder, ResourceKind.INSTANCE, "replica", "LaunchReplica", NOON, {})
        ledger.made(holder, row, "i-3", NOON)
        ledger.set_replica(holder, ReplicaRow("orders", "i-3", "run-1", ReplicaState.BUILDING, NOON))
        undo = FailedStep(
            run_id="run-1", cluster="orders", operation="scale_out", step="UndoScaleOut",
            fencing_token=holder.fencing_token, failure=Failure(failed_step="Prewarm", error="PrewarmFailed", cause=""),
        )  # fmt: skip
        with pytest.raises(UndoInProgress, match="i-3"):
            undo_run(ports, undo)
        assert isinstance(ports.clock, FakeClock)
        # Younger, and what no list shows might only not show yet.
        ports.clock.advance(minutes=1)
        assert "nothing of run-1 is left" in undo_run(ports, undo).text
        assert ledger.replicas("orders")["i-3"].state is ReplicaState.RETIRED
