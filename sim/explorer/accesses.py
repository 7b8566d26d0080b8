"""What a call to AWS reads and writes: two calls that share nothing give the same in either order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# (service, what, more of it): an item is ("item", pk, sk), a query ("range", pk, the beginning of sk).
Place = tuple[str, str, str]
_READING = ("Describe", "Get", "List", "Query")
_HELD_UNTIL = "SET held_until = :until"


@dataclass(frozen=True)
class Access:
    """An operation with the places that it reads and writes."""

    operation: str
    reads: frozenset[Place]
    writes: frozenset[Place]

    @property
    def changes(self) -> bool:
        return bool(self.writes)

    def meets(self, other: Access) -> bool:
        """Tells whether the order of the two calls can matter."""
        return (
            _share(self.writes, other.writes)
            or _share(self.writes, other.reads)
            or _share(self.reads, other.writes)
        )


def access_of(service: str, operation: str, given: Mapping[str, Any]) -> Access:
    """Returns what the call touches; outside DynamoDB, all that the service has of a kind."""
    if service == "dynamodb":
        reads, writes = _of_dynamodb(operation, given)
        return Access(operation, frozenset(reads), frozenset(writes))
    if operation.startswith(_READING):
        return Access(operation, frozenset({_kind(service, operation)}), frozenset())
    everything = frozenset({(service, "", "")})
    return Access(operation, everything, everything)


def _kind(service: str, operation: str) -> Place:
    """What is described; "" is everything of the service."""
    return (service, operation.removeprefix("Describe"), "") if service == "ec2" else (service, "", "")


def _of_dynamodb(operation: str, given: Mapping[str, Any]) -> tuple[set[Place], set[Place]]:
    match operation:
        case "GetItem":
            item = _item(given["Key"])
            return {item, *_end_of_lease(item)}, set()
        case "Query":
            values = [one["S"] for one in given["ExpressionAttributeValues"].values()]
            prefix = values[1] if "begins_with" in given["KeyConditionExpression"] else ""
            return {("range", values[0], prefix)}, set()
        case "PutItem":
            return set(), {_item(given["Item"])}
        case "UpdateItem":
            item = _item(given["Key"])
            return set(), {item, *_end_of_lease(item)}
        case "TransactWriteItems":
            return _of_transaction(given)
    raise NotImplementedError(operation)


def _of_transaction(given: Mapping[str, Any]) -> tuple[set[Place], set[Place]]:
    reads: set[Place] = set()
    writes: set[Place] = set()
    for entry in given["TransactItems"]:
        [(kind, one)] = entry.items()
        item = _item(one["Item"] if kind == "Put" else one["Key"])
        if kind == "ConditionCheck":
            reads.add(item)
        elif one.get("UpdateExpression") == _HELD_UNTIL:
            # The condition on the lease looks at its run and token, which this leaves alone.
            reads.add(item)
            writes |= _end_of_lease(item)
        else:
            writes.add(item)
    return reads, writes


def _item(key: Mapping[str, Any]) -> Place:
    return ("item", key["pk"]["S"], key["sk"]["S"])


def _end_of_lease(item: Place) -> set[Place]:
    return {("item", item[1], "lease held_until")} if item[2] == "lease" else set()


def _share(some: frozenset[Place], others: frozenset[Place]) -> bool:
    return any(_same(one, other) for one in some for other in others)


def _same(one: Place, other: Place) -> bool:
    if {one[0], other[0]} == {"item", "range"}:
        item, queried = (one, other) if one[0] == "item" else (other, one)
        return item[1] == queried[1] and item[2].startswith(queried[2])
    if one[0] in ("item", "range"):
        return one == other
    return one[0] == other[0] and (one[1] == other[1] or "" in (one[1], other[1]))
