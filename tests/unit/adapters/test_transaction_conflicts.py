"""What a table in memory cannot show of DynamoDB: writes that meet a transaction on the same item, late reads."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber
from peaker.adapters.dynamodb.items import CONFLICT_TRIES, LedgerTable
from peaker.domain.runs.ledger import Holder

from peaker_contract.errors import LeaseLost, Throttled

HOLDER = Holder("orders", "run-1", 3)


class CancelledTransactions:
    """A table whose transactions are cancelled for the given reasons, one after the other; then one is let through."""

    def __init__(self, *cancelled: tuple[str, ...]) -> None:
        client = boto3.client("dynamodb", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
        self.pauses: list[float] = []
        self.table = LedgerTable(client, "ledger", self.pauses.append)
        self._stubber = Stubber(client)
        for codes in cancelled:
            self._stubber.add_client_error(
                "transact_write_items",
                "TransactionCanceledException",
                modeled_fields={"CancellationReasons": [{"Code": code} for code in codes]},
            )
        self._stubber.add_response("transact_write_items", {})
        self._stubber.activate()

    def write(self) -> None:
        self.table.put(HOLDER, {"pk": "run#run-1", "sk": "step"})


def test_a_write_that_met_another_on_the_lease_is_sent_again() -> None:
    met = CancelledTransactions(("TransactionConflict", "None"), ("None", "TransactionConflict"))
    met.write()
    assert len(met.pauses) == 2


def test_a_write_that_always_meets_another_is_left_to_the_retry_of_its_state() -> None:
    met = CancelledTransactions(*[("TransactionConflict", "None")] * CONFLICT_TRIES)
    with pytest.raises(Throttled, match="TransactionConflict"):
        met.write()
    assert sum(met.pauses) < 3


def test_a_lost_lease_is_told_at_once_even_beside_a_conflict() -> None:
    met = CancelledTransactions(("ConditionalCheckFailed", "TransactionConflict"))
    with pytest.raises(LeaseLost):
        met.write()
    assert met.pauses == []


def test_an_item_is_read_as_the_last_write_left_it() -> None:
    client = boto3.client("dynamodb", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stubber:
        key = {"pk": {"S": "cluster#orders"}, "sk": {"S": "lease"}}
        asked = {"TableName": "ledger", "Key": key, "ConsistentRead": True}
        stubber.add_response("get_item", {"Item": key}, asked)
        assert LedgerTable(client, "ledger").get("cluster#orders", "lease") is not None
