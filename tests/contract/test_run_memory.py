"""What a run's steps settle for later ones: one suite for a table in memory and for DynamoDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.runs.ledger import (
    Donor,
    Holder,
    Placement,
    ResourceKind,
    RunPart,
    RunReplica,
    Source,
)
from peaker.ports.ledger import Lease, Ledger

from peaker_contract.errors import LedgerInconsistent, Throttled
from sim.workflows.virtual_time import START as NOON
from tests.contract.run_parts import DONOR, LATER, ONE_OF_EACH, RUN


def test_one_of_each_part_is_here_and_no_two_have_one_name() -> None:
    assert {type(part) for part in ONE_OF_EACH} == set(RunPart.__subclasses__())
    names = [part.ledger_name for part in ONE_OF_EACH]
    assert len(set(names)) == len(names)


def test_what_was_settled_stays_beside_what_is_settled_later(ledger: Ledger, holder: Holder) -> None:
    for part in ONE_OF_EACH:
        ledger.settle(holder, part)
    run = ledger.run("run-1")
    assert all(run.required(type(part), "AnyStep") == part for part in ONE_OF_EACH)
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
        ledger.start_step(holder, "VerifyStorage", NOON, LATER)
        drop_expired(ledger_table, NOON + timedelta(days=2 * 365))
        assert ledger.run("run-1").part(type(DONOR)) == DONOR
        assert [row.kind for row in ledger.resources("run-1")] == [ResourceKind.INSTANCE, ResourceKind.VOLUME]
        # It comes back from parking only with the proof of its storage.
        assert [row.step for row in ledger.steps("run-1")] == ["VerifyStorage"]


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
