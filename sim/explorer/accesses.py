"""What a call to AWS reads and writes: two calls that share nothing give the same in either order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_READING = ("Describe", "Get", "List", "Query")
_HELD_UNTIL = "SET held_until = :until"


@dataclass(frozen=True)
class Access:
    """An operation with the places that it reads and writes; a place holds all places that begin with it."""

    operation: str
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def changes(self) -> bool:
        return bool(self.writes)

    def meets(self, others: Collection[Access]) -> bool:
        """Tells whether the order of this call and one of the others can matter."""
        return any(
            _share(self.writes, one.writes | one.reads) or _share(self.reads, one.writes) for one in others
        )


def access_of(service: str, operation: str, given: Mapping[str, Any]) -> Access:
    """Returns what the call touches; outside DynamoDB, all that the service has of a kind."""
    reads: set[str] = set()
    writes: set[str] = set()
    if service == "dynamodb":
        _of_dynamodb(operation, given, reads, writes)
    elif not operation.startswith(_READING):
        writes.add(f"{service}|")
    elif service == "ec2":
        reads.add(f"ec2|{operation.removeprefix('Describe')}")
    else:
        reads.add(f"{service}|")
    return Access(operation, frozenset(reads), frozenset(writes))


def _of_dynamodb(operation: str, given: Mapping[str, Any], reads: set[str], writes: set[str]) -> None:
    if operation == "Query":
        values = [one["S"] for one in given["ExpressionAttributeValues"].values()]
        reads.add("|".join(values if "begins_with" in given["KeyConditionExpression"] else [values[0], ""]))
        return
    entries = given["TransactItems"] if operation == "TransactWriteItems" else [{operation: given}]
    for [(kind, one)] in (entry.items() for entry in entries):
        key = one.get("Item") or one["Key"]
        item, end_of_lease = (
            f"{key['pk']['S']}|{sk}" for sk in (key["sk"]["S"], f"held_until of {key['sk']['S']}")
        )
        if kind == "ConditionCheck":
            reads.add(item)
        elif one.get("UpdateExpression") == _HELD_UNTIL:
            # The condition on the lease looks at its run and token, which this leaves alone.
            reads.add(item)
            writes.add(end_of_lease)
        else:
            (reads if kind == "GetItem" else writes).update((item, end_of_lease))


def _share(some: frozenset[str], others: frozenset[str]) -> bool:
    return any(one.startswith(other) or other.startswith(one) for one in some for other in others)
