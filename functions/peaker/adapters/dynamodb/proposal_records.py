"""The newest proposal of settings of each cluster, in the ledger's table: one item of its partition, with a version.

A write has the version that was read as its condition: of two looks at the same time the second keeps nothing.
"""

from __future__ import annotations

from peaker.adapters.dynamodb.items import LedgerTable, cluster_key
from peaker.adapters.dynamodb.versioned_documents import keep_document, read_document
from peaker.domain.replay.kept_proposal import KeptProposal

PROPOSAL = "settings_proposal"


class DynamoDbProposalRecords:
    """Port ProposalRecords."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def proposal(self, cluster: str) -> KeptProposal:
        return read_document(self._table, cluster_key(cluster), PROPOSAL, KeptProposal)

    def keep_proposal(self, cluster: str, changed: KeptProposal) -> bool:
        return keep_document(self._table, cluster_key(cluster), PROPOSAL, changed)
