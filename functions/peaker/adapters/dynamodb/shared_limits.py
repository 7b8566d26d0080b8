"""What runs share of the account's limits, in the ledger's table: one item per limit, each with a version.

A write has the version that was read as its condition, so that two runs never both get what there is once. An item of
1,000 reservations has 200 KB (DynamoDB: 400 KB); such a write takes 200 of the 1,000 write units that a partition has
each second. Of 10,000 clusters with a common peak two ask in a second at most, and of the rate some hundreds have a
reservation at a time: 250 of them are 50 units a write, two or three writes a build that gets one.
"""

from __future__ import annotations

from typing import TypeVar

from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable
from peaker.domain.decoding import text_in, understood
from peaker.domain.limits.reservations import Reservations
from peaker.domain.limits.start_slots import StartSlots
from peaker_contract.errors import LedgerInconsistent

# The table is of one account and region, and so are its limits. The sort keys name the limits.
PARTITION = "limits"
INITIALIZATION_RATE, REPLICA_STARTS = "initialization_rate", "replica_starts"

SharedT = TypeVar("SharedT", Reservations, StartSlots)


class DynamoDbSharedLimits:
    """Port SharedLimits."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def reservations(self) -> Reservations:
        return self._read(INITIALIZATION_RATE, Reservations)

    def keep_reservations(self, changed: Reservations) -> bool:
        return self._keep(INITIALIZATION_RATE, changed)

    def start_slots(self) -> StartSlots:
        return self._read(REPLICA_STARTS, StartSlots)

    def keep_start_slots(self, changed: StartSlots) -> bool:
        return self._keep(REPLICA_STARTS, changed)

    def _read(self, limit: str, kind: type[SharedT]) -> SharedT:
        item = self._table.get(PARTITION, limit)
        if item is None:
            return kind()
        with understood(LedgerInconsistent, f"the ledger's item {PARTITION} {limit}"):
            return kind.model_validate_json(text_in(item, "document"))

    def _keep(self, limit: str, changed: SharedT) -> bool:
        written = changed.model_copy(update={"version": changed.version + 1})
        try:
            self._table.update_if(
                PARTITION,
                limit,
                "SET version = :next, document = :document",
                "attribute_not_exists(version) OR version = :read",
                {":next": written.version, ":read": changed.version, ":document": written.model_dump_json()},
            )
        except ConditionFailed:
            return False
        return True
