"""The newest proposal of settings: one suite for the fake, and the adapter on DynamoDB and in memory."""

from __future__ import annotations

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.proposal_records import DynamoDbProposalRecords
from peaker.domain.replay.kept_proposal import KeptProposal, SettingsCost, SettingsInForce
from peaker.domain.replay.settings_proposal import Advice
from peaker.ports import ProposalRecords

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import Account
from bench.faults.world.table import MemoryTable
from peaker_contract.errors import LedgerInconsistent
from tests.support.fakes import NOON
from tests.support.forecast_fakes import FakeProposalRecords

COST = SettingsCost(
    quantile=0.95, headroom=0.1, keep_lead_times=2.0, usd=18.5, replica_hours=60.25, short_minutes=12.5
)
MADE = KeptProposal(
    week_ends_at=NOON,
    made_at=NOON,
    in_force=SettingsInForce(
        quantile=0.95,
        headroom=0.1,
        keep_lead_times=2.0,
        capacity_per_replica=100.0,
        min_replicas=1,
        max_replicas=4,
    ),
    advice=Advice.CHANGE,
    reason="cheaper",
    weeks=4,
    capacity_per_replica=100.0,
    lead_seconds=4200.0,
    now=COST,
    proposed=COST,
    saved_usd_per_week=3.2,
)


@pytest.fixture(params=["fake", "hostile", "dynamodb"])
def records(request: pytest.FixtureRequest) -> ProposalRecords:
    """Nobody has looked at any cluster yet."""
    if request.param == "fake":
        return FakeProposalRecords()
    if request.param == "hostile":
        return DynamoDbProposalRecords(MemoryTable(Account(), VirtualTime()))
    return DynamoDbProposalRecords(request.getfixturevalue("ledger_table"))


def test_what_is_kept_is_read_and_no_other_clusters(records: ProposalRecords) -> None:
    assert records.proposal("orders") == KeptProposal()
    assert records.keep_proposal("orders", MADE)
    assert records.proposal("orders") == MADE.model_copy(update={"version": 1})
    assert records.proposal("billing") == KeptProposal()


def test_of_two_looks_that_read_the_same_the_second_keeps_nothing(records: ProposalRecords) -> None:
    there = records.proposal("orders")
    assert records.keep_proposal("orders", MADE)
    assert not records.keep_proposal("orders", there)
    assert records.proposal("orders").advice is Advice.CHANGE


@pytest.mark.parametrize(
    "document", ["{}x", '{"version": "one"}', '{"advice": "perhaps"}', '{"now": {"usd": "NaN"}}', None, 7]
)
def test_a_proposal_that_cannot_be_read_is_named(ledger_table: LedgerTable, document: object) -> None:
    ledger_table.update_if(
        "cluster#orders",
        "settings_proposal",
        "SET version = :one, document = :document",
        "attribute_not_exists(version)",
        {":one": 1, ":document": "" if document is None else document},
    )
    with pytest.raises(LedgerInconsistent, match="orders settings_proposal"):
        DynamoDbProposalRecords(ledger_table).proposal("orders")
