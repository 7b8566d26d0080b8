"""What clusters have reserved, in the ledger's table: one item of the cluster's partition, with a version.

A write has the version that was read as its condition: of two looks at the same time the second reserves nothing. An
item of 600 places has 270 KB (DynamoDB: 400 KB).
"""

from __future__ import annotations

from peaker.adapters.dynamodb.items import LedgerTable, cluster_key
from peaker.adapters.dynamodb.versioned_documents import keep_document, read_document
from peaker.domain.reserved_capacity.places import ReservedPlaces

PLACES = "places"


class DynamoDbPlaceRecords:
    """Port PlaceRecords."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def places(self, cluster: str) -> ReservedPlaces:
        return read_document(self._table, cluster_key(cluster), PLACES, ReservedPlaces)

    def keep_places(self, cluster: str, changed: ReservedPlaces) -> bool:
        return keep_document(self._table, cluster_key(cluster), PLACES, changed)
