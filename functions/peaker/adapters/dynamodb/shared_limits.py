"""What runs share of the account's limits, in the ledger's table: one item per limit, each with a version.

A write has the version that was read as its condition, so that two runs never both get what there is once. An item of
1,000 reservations has 200 KB (DynamoDB: 400 KB); such a write takes 200 of the 1,000 write units that a partition has
each second. Of 10,000 clusters with a common peak two ask in a second at most, and of the rate some hundreds have a
reservation at a time: 250 of them are 50 units a write, two or three writes a build that gets one.
"""

from __future__ import annotations

from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.versioned_documents import keep_document, read_document
from peaker.domain.limits.reservations import Reservations
from peaker.domain.limits.start_slots import StartSlots

# The table is of one account and region, and so are its limits. The sort keys name the limits.
PARTITION = "limits"
INITIALIZATION_RATE, REPLICA_STARTS = "initialization_rate", "replica_starts"


class DynamoDbSharedLimits:
    """Port SharedLimits."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def reservations(self) -> Reservations:
        return read_document(self._table, PARTITION, INITIALIZATION_RATE, Reservations)

    def keep_reservations(self, changed: Reservations) -> bool:
        return keep_document(self._table, PARTITION, INITIALIZATION_RATE, changed)

    def start_slots(self) -> StartSlots:
        return read_document(self._table, PARTITION, REPLICA_STARTS, StartSlots)

    def keep_start_slots(self, changed: StartSlots) -> bool:
        return keep_document(self._table, PARTITION, REPLICA_STARTS, changed)
