"""A whole document as one item of the ledger's table, with a version: of two writers that read the same one, the second
is told so and keeps nothing."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable
from peaker.domain.decoding import text_in, understood
from peaker_contract.errors import LedgerInconsistent


class Versioned(Protocol):
    """A frozen model with the version that was read; one that nobody wrote yet is the kind's own default."""

    @property
    def version(self) -> int: ...

    @classmethod
    def model_validate_json(cls, json_data: str) -> Self: ...

    def model_copy(self, *, update: dict[str, int]) -> Self: ...

    def model_dump_json(self) -> str: ...


DocumentT = TypeVar("DocumentT", bound=Versioned)


def read_document(table: LedgerTable, partition: str, name: str, kind: type[DocumentT]) -> DocumentT:
    """Raises LedgerInconsistent, with the item's key, for one that nobody understands."""
    item = table.get(partition, name)
    if item is None:
        return kind()
    with understood(LedgerInconsistent, f"the ledger's item {partition} {name}"):
        return kind.model_validate_json(text_in(item, "document"))


def keep_document(table: LedgerTable, partition: str, name: str, changed: Versioned) -> bool:
    """False where somebody wrote since `changed` was read."""
    written = changed.model_copy(update={"version": changed.version + 1})
    try:
        table.update_if(
            partition,
            name,
            "SET version = :next, document = :document",
            "attribute_not_exists(version) OR version = :read",
            {":next": written.version, ":read": changed.version, ":document": written.model_dump_json()},
        )
    except ConditionFailed:
        return False
    return True
