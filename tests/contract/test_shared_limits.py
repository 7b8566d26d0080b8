"""What all runs share: one suite for the fake, the adapter on DynamoDB, and the adapter on the table in memory."""

from __future__ import annotations

from datetime import timedelta

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.shared_limits import DynamoDbSharedLimits
from peaker.domain.limits.reservations import Reservation, Reservations
from peaker.domain.limits.start_slots import StartSlots, next_slot
from peaker.ports import SharedLimits

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import Account
from bench.faults.world.table import MemoryTable
from peaker_contract.errors import LedgerInconsistent
from tests.support.fakes import NOON, FakeSharedLimits

OWN = Reservation(
    run_id="run-1", cluster="orders", amount=600, begins_at=NOON, ends_at=NOON + timedelta(minutes=9)
)


@pytest.fixture(params=["fake", "hostile", "dynamodb"])
def limits(request: pytest.FixtureRequest) -> SharedLimits:
    """Nothing is reserved and nobody has started."""
    if request.param == "fake":
        return FakeSharedLimits()
    if request.param == "hostile":
        return DynamoDbSharedLimits(MemoryTable(Account(), VirtualTime()))
    return DynamoDbSharedLimits(request.getfixturevalue("ledger_table"))


def test_before_the_first_run_nothing_is_reserved(limits: SharedLimits) -> None:
    assert (limits.reservations(), limits.start_slots()) == (Reservations(), StartSlots())


def test_what_is_written_is_read(limits: SharedLimits) -> None:
    _, slots = next_slot(limits.start_slots(), NOON)
    assert limits.keep_reservations(Reservations(made=(OWN,)))
    assert limits.keep_start_slots(slots)
    assert limits.reservations() == Reservations(version=1, made=(OWN,))
    assert limits.start_slots() == slots.model_copy(update={"version": 1})


def test_of_two_that_read_the_same_the_second_writes_nothing(limits: SharedLimits) -> None:
    for there in (limits.reservations(), limits.reservations().model_copy(update={"made": (OWN,)})):
        first = limits.keep_reservations(there)
        assert first == (there.made == ())
    assert limits.reservations().made == ()
    slots = limits.start_slots()
    assert limits.keep_start_slots(slots)
    assert not limits.keep_start_slots(slots)


def test_who_reads_again_may_write(limits: SharedLimits) -> None:
    assert limits.keep_reservations(limits.reservations())
    assert limits.keep_reservations(limits.reservations().model_copy(update={"made": (OWN,)}))
    assert limits.keep_reservations(limits.reservations().without("run-1"))
    assert limits.reservations() == Reservations(version=3)


def test_the_two_limits_know_nothing_of_each_other(limits: SharedLimits) -> None:
    assert limits.keep_reservations(limits.reservations())
    assert limits.start_slots().version == 0


@pytest.mark.parametrize("document", ["{}x", '{"version": "one"}', '{"made": [{"amount": -1}]}', None, 7])
def test_an_item_that_cannot_be_read_is_named(ledger_table: LedgerTable, document: object) -> None:
    ledger_table.update_if(
        "limits",
        "initialization_rate",
        "SET version = :one, document = :document",
        "attribute_not_exists(version)",
        {":one": 1, ":document": "" if document is None else document},
    )
    with pytest.raises(LedgerInconsistent, match="limits initialization_rate"):
        DynamoDbSharedLimits(ledger_table).reservations()
