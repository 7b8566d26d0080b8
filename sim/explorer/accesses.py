"""What a call to AWS reads and writes: two calls that share nothing give the same in either order.

The place of an attribute of the ledger is `pk|sk|attribute`; that of an item ends before the attribute. Whether an item
is there is its attribute `pk`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

_READING = ("Describe", "Get", "List", "Query")
# In DynamoDB's expressions: the attributes, and those that an update sets.
_ATTRIBUTES = re.compile(r"(?<![:\w#])(?!attribute_)[#a-z]\w*")
_SET = re.compile(r"(#?\w+) = |ADD (\w+)")
# Which kinds of things a call to EC2 changes; others may change any.
_CHANGED = {
    "AttachVolume": ("Instance", "Volume"),
    "CreateSnapshots": ("Snapshot",),
    "CreateVolume": ("Volume",),
    "DeleteSnapshot": ("Snapshot",),
    "DeleteVolume": ("Volume",),
    "RunInstances": ("Instance", "Volume"),
    "StartInstances": ("Instance",),
    "StopInstances": ("Instance",),
    "TerminateInstances": ("Instance", "Volume"),
}
# What a call looks at besides the things of its own service: a volume's snapshot, a target's instance, a check's alarm.
_LOOKS_AT = {
    "CreateVolume": ("ec2|Snapshot",),
    "CreateSnapshots": ("ec2|Instance", "ec2|Volume"),
    "elbv2": ("ec2|Instance",),
    "route53": ("cloudwatch|",),
    "ssm": ("ec2|Instance",),
}


@dataclass(frozen=True)
class Access:
    """An operation with the places that it reads and writes; a place holds all places that begin with it."""

    operation: str
    reads: frozenset[str]
    writes: frozenset[str]

    @property
    def kind(self) -> tuple[str, ...]:
        """The operation, and the kinds of the ledger's items or of the things that it changes."""
        return (self.operation, *sorted({place.split("|")[1].split("#")[0] for place in self.writes}))

    @property
    def changes(self) -> bool:
        return bool(self.writes)

    def unchanged(self, places: Set[str]) -> Access:
        """The same call where it left these places as they were: it only looked at them."""
        return Access(self.operation, self.reads | (self.writes & places), self.writes - places)

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
    else:
        reads.update(_LOOKS_AT.get(service, ()), _LOOKS_AT.get(operation, ()))
        if not operation.startswith(_READING):
            writes.update(f"{service}|{kind}" for kind in _CHANGED.get(operation, ("",)))
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
        item = f"{key['pk']['S']}|{key['sk']['S']}|"
        names = one.get("ExpressionAttributeNames", {})
        looked_at = _ATTRIBUTES.findall(one.get("ConditionExpression", ""))
        reads.update(f"{item}{names.get(name, name)}" for name in looked_at)
        if kind == "GetItem":
            reads.add(item)
        elif "UpdateExpression" in one:
            changed = ["pk", *map("".join, _SET.findall(one["UpdateExpression"]))]
            writes.update(f"{item}{names.get(name, name)}" for name in changed)
        elif kind != "ConditionCheck":
            writes.add(item)


def _share(some: frozenset[str], others: frozenset[str]) -> bool:
    return any(one.startswith(other) or other.startswith(one) for one in some for other in others)
