"""The ledger's table in memory: items, conditional writes, transactions that hold the lease."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from peaker.adapters.dynamodb.items import FENCE, ConditionFailed, LedgerTable, cluster_key, expiry, run_key
from peaker.domain.runs.ledger import Holder

from sim.account import Account
from sim.workflows.virtual_time import VirtualTime

_COMPARED = re.compile(r"^\(?(\w+) (=|<>|<=|<|>=|>) (:\w+)\)?$")
_FUNCTION = re.compile(r"^\(?attribute_(not_)?exists\((\w+)\)\)?$")
P = ParamSpec("P")
R = TypeVar("R")


def _at_once(write: Callable[Concatenate[MemoryTable, P], R]) -> Callable[Concatenate[MemoryTable, P], R]:
    """The condition and the change, with no other write between them, as in DynamoDB."""

    @wraps(write)
    def alone(table: MemoryTable, /, *arguments: P.args, **named: P.kwargs) -> R:
        with table.writing:
            return write(table, *arguments, **named)

    return alone


class MemoryTable(LedgerTable):
    """Items of the account; the real ledger and lease work on it. Every change of a lease is kept with its time."""

    def __init__(self, account: Account, time: VirtualTime) -> None:
        self._account = account
        self._time = time
        self.writing = threading.RLock()

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        item = self._account.table.get(pk, {}).get(sk)
        return None if item is None else dict(item)

    def query(self, pk: str, sk_prefix: str) -> list[dict[str, Any]]:
        found = self._account.table.get(pk, {})
        return [dict(found[sk]) for sk in sorted(found) if sk.startswith(sk_prefix)]

    @_at_once
    def put_new(self, holder: Holder, items: Sequence[Mapping[str, Any]]) -> None:
        self._require_lease(holder)
        if any(self.get(item["pk"], item["sk"]) is not None for item in items):
            raise ConditionFailed
        for item in items:
            self._put(item)

    @_at_once
    def put(self, holder: Holder, item: Mapping[str, Any]) -> None:
        self._require_lease(holder)
        self._put(item)

    @_at_once
    def put_while(
        self,
        holder: Holder,
        item: Mapping[str, Any],
        keys: Collection[tuple[str, str]],
        name: str,
        value: str,
    ) -> None:
        self._require_lease(holder)
        if any((self.get(*key) or {}).get(name) != value for key in keys):
            raise ConditionFailed
        self._put(item)

    @_at_once
    def put_after(self, holder: Holder, item: Mapping[str, Any], name: str, value: str) -> None:
        self._require_lease(holder)
        present = self.get(item["pk"], item["sk"])
        if present is not None and present[name] > value:
            raise ConditionFailed
        self._put(item)

    @_at_once
    def update(
        self,
        holder: Holder,
        pk: str,
        sk: str,
        values: Mapping[str, Any],
        *,
        keep: frozenset[str] = frozenset(),
        must_exist: bool = False,
        lease_until: str | None = None,
    ) -> None:
        self._require_lease(holder)
        item = self.get(pk, sk)
        if item is None and must_exist:
            raise ConditionFailed
        item = item or {"pk": pk, "sk": sk}
        item |= {name: one for name, one in values.items() if not (name in keep and name in item)}
        self._put(item)
        if lease_until is not None:
            self._put({**(self.get(cluster_key(holder.cluster), "lease") or {}), "held_until": lease_until})

    @_at_once
    def update_all(
        self, holder: Holder, keys: Collection[tuple[str, str]], values: Mapping[str, Any]
    ) -> None:
        for pk, sk in keys:
            self.update(holder, pk, sk, values)

    @_at_once
    def update_if(
        self, pk: str, sk: str, expression: str, condition: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        item = self.get(pk, sk)
        ways = [way.split(" AND ") for way in condition.split(" OR ")]
        if not any(all(_holds(one.strip(), item, values) for one in way) for way in ways):
            raise ConditionFailed
        changed = item or {"pk": pk, "sk": sk}
        for part in re.split(r"\b(?=SET |ADD |REMOVE )", expression):
            _apply(part.strip(), changed, values)
        self._put(changed)
        return dict(changed)

    @_at_once
    def fence_member(self, holder: Holder, at: datetime) -> int:
        self._require_lease(replace(holder, member_token=None))
        token = self.member_token(holder.run_id) + 1
        self._put(
            {"pk": run_key(holder.run_id), "sk": FENCE, "member_token": token, "expires_at": expiry(at)}
        )
        return token

    def plant(self, item: Mapping[str, Any]) -> None:
        """Put an item, or attributes of one that is there, without a lease."""
        self._put({**(self.get(item["pk"], item["sk"]) or {}), **item})

    def _require_lease(self, holder: Holder) -> None:
        self.require_lease(holder)

    def _put(self, item: Mapping[str, Any]) -> None:
        kept = {name: one for name, one in item.items() if one is not None}
        partition = self._account.table.setdefault(kept["pk"], {})
        before = partition.get(kept["sk"])
        partition[kept["sk"]] = kept
        if kept["sk"] == "lease" and before != kept:
            self._account.leases.append({"at": self._time.seconds, **kept})


def _holds(condition: str, item: Mapping[str, Any] | None, values: Mapping[str, Any]) -> bool:
    function = _FUNCTION.match(condition)
    if function:
        return (item is not None and function[2] in item) != bool(function[1])
    compared = _COMPARED.match(condition)
    if compared is None:
        raise NotImplementedError(condition)
    if item is None or compared[1] not in item:
        return False
    left, right = item[compared[1]], values[compared[3]]
    return bool(
        {
            "=": left == right,
            "<>": left != right,
            "<=": left <= right,
            "<": left < right,
            ">=": left >= right,
            ">": left > right,
        }[compared[2]]
    )


def _apply(part: str, item: dict[str, Any], values: Mapping[str, Any]) -> None:
    if part.startswith("SET "):
        for assignment in part[4:].split(","):
            name, given = (one.strip() for one in assignment.split("="))
            item[name] = values[given]
    elif part.startswith("ADD "):
        name, given = part[4:].split()
        item[name] = item.get(name, 0) + values[given]
    elif part.startswith("REMOVE "):
        for name in part[7:].split(","):
            item.pop(name.strip(), None)
    elif part:
        raise NotImplementedError(part)
