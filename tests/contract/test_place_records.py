"""What clusters have reserved: one suite for the fake, and for the adapter on DynamoDB and on the table in memory."""

from __future__ import annotations

from datetime import timedelta

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.place_records import DynamoDbPlaceRecords
from peaker.domain.reserved_capacity.places import ReservedPlace, ReservedPlaces
from peaker.ports import PlaceRecords

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import Account
from bench.faults.world.table import MemoryTable
from peaker_contract.errors import LedgerInconsistent
from tests.support.capacity_fakes import FakePlaceRecords
from tests.support.fakes import NOON

PLACE = ReservedPlace(
    name="orders-place-1",
    zone="us-east-1a",
    instance_type="r6i.large",
    platform="Linux/UNIX",
    event="winter sale",
    asked_at=NOON,
    ends_at=NOON + timedelta(hours=9),
    hourly_usd=0.126,
)


@pytest.fixture(params=["fake", "hostile", "dynamodb"])
def records(request: pytest.FixtureRequest) -> PlaceRecords:
    """Nothing was ever reserved."""
    if request.param == "fake":
        return FakePlaceRecords()
    if request.param == "hostile":
        return DynamoDbPlaceRecords(MemoryTable(Account(), VirtualTime()))
    return DynamoDbPlaceRecords(request.getfixturevalue("ledger_table"))


def test_what_is_written_is_read_and_no_other_clusters(records: PlaceRecords) -> None:
    assert records.places("orders") == ReservedPlaces()
    assert records.keep_places("orders", ReservedPlaces().with_place(PLACE))
    assert records.places("orders") == ReservedPlaces(version=1, asked=1, places=(PLACE,))
    assert records.places("billing") == ReservedPlaces()


def test_of_two_looks_that_read_the_same_the_second_writes_nothing(records: PlaceRecords) -> None:
    there = records.places("orders")
    assert records.keep_places("orders", there)
    assert not records.keep_places("orders", there.with_place(PLACE))
    assert records.places("orders").places == ()


@pytest.mark.parametrize("document", ["{}x", '{"version": "one"}', '{"places": [{"zone": 1}]}', None, 7])
def test_a_record_that_cannot_be_read_is_named(ledger_table: LedgerTable, document: object) -> None:
    ledger_table.update_if(
        "cluster#orders",
        "places",
        "SET version = :one, document = :document",
        "attribute_not_exists(version)",
        {":one": 1, ":document": "" if document is None else document},
    )
    with pytest.raises(LedgerInconsistent, match="orders places"):
        DynamoDbPlaceRecords(ledger_table).places("orders")
