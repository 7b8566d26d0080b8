"""DynamoDB transactions that other writers do not lose by: a failed one takes back its own items and no more.

moto copies the whole table before each item of a transaction and puts the copy back when it fails. That undoes what
others wrote meanwhile, and costs more with every row. Here the items of the transaction are kept, and others wait.

moto also sorts the whole table for each query, which slows every later step of a long-lived cloud. Here a query of
the table looks at its partition alone. And it copies each item that it gives by the machinery for any object, which
takes most of a query's time; the values of an item are trees of plain values, and are copied as such.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# moto makes an item before it has checked the condition of an update, so readers wait as well.
WAITING = ("put_item", "update_item", "delete_item", "get_item", "query", "scan")


@dataclass(frozen=True)
class Kept:
    """An item as it was; None when there was none."""

    table: str
    key: Mapping[str, Any]
    item: Any


def install(cloud: OpenCloud) -> None:
    """Replace moto's transactions and make single reads and writes wait for them."""
    import moto.dynamodb.models as models
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.dynamo_type import DynamoType
    from moto.dynamodb.models.table import Table

    lock = threading.RLock()
    own_copies = SimpleNamespace(
        deepcopy=lambda value, memo=None: value if isinstance(value, Table) else copy.deepcopy(value, memo),
        copy=copy.copy,
    )
    cloud.patch(models, "copy", own_copies)
    original = DynamoDBBackend.transact_write_items

    def transact_write_items(self: Any, transact_items: Sequence[Mapping[str, Any]]) -> None:
        with lock:
            kept = [one for entry in transact_items for one in _keep(self, entry)]
            try:
                original(self, list(transact_items))  # type: ignore[arg-type]
            except BaseException:
                for one in kept:
                    _put_back(self, one)
                raise

    cloud.patch(DynamoDBBackend, "transact_write_items", transact_write_items)
    cloud.patch(DynamoType, "__deepcopy__", lambda value, memo: _copy_of(value))
    cloud.patch(Table, "query", _in_one_partition(Table.query))
    for name in WAITING:
        cloud.patch(DynamoDBBackend, name, _waiting(getattr(DynamoDBBackend, name), lock))


def _copy_of(value: Any) -> Any:
    """A DynamoType with all that it holds; anything else is no value that changes."""
    if not hasattr(value, "type"):
        return value
    copied = value.__class__.__new__(value.__class__)
    copied.type, held = value.type, value.value
    if isinstance(held, dict):
        copied.value = {key: _copy_of(one) for key, one in held.items()}
    elif isinstance(held, list):
        copied.value = [_copy_of(one) for one in held]
    else:
        copied.value = held
    return copied


def _waiting(write: Callable[..., Any], lock: AbstractContextManager[Any]) -> Callable[..., Any]:
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return write(self, *args, **kwargs)

    return locked


def _in_one_partition(query: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(query)

    def query_partition(self: Any, hash_key: Any, *args: Any, **kwargs: Any) -> Any:
        of_an_index = signature.bind(self, hash_key, *args, **kwargs).arguments.get("index_name")
        if of_an_index:
            return query(self, hash_key, *args, **kwargs)
        partition = copy.copy(self)
        partition.items = {hash_key: self.items[hash_key]} if hash_key in self.items else {}
        return query(partition, hash_key, *args, **kwargs)

    return query_partition


def _keep(backend: Any, entry: Mapping[str, Any]) -> list[Kept]:
    """The item that one entry of a transaction may change; nothing for an entry that moto will refuse."""
    operation, body = next(iter(entry.items()))
    name = body.get("TableName")
    table = backend.tables.get(name)
    if table is None or operation == "ConditionCheck":
        return []
    source = body.get("Item", {}) if operation == "Put" else body.get("Key", {})
    attributes = [table.hash_key_attr, *([table.range_key_attr] if table.range_key_attr else [])]
    if any(attribute not in source for attribute in attributes):
        return []
    key = {attribute: source[attribute] for attribute in attributes}
    return [Kept(name, key, copy.deepcopy(backend.get_item(name, key)))]


def _put_back(backend: Any, kept: Kept) -> None:
    table = backend.tables[kept.table]
    hash_key, range_key = backend.get_keys_value(table, kept.key)
    if kept.item is None:
        if table.get_item(hash_key, range_key) is not None:
            table.delete_item(hash_key, range_key)
    elif range_key is None:
        table.items[hash_key] = kept.item
    else:
        table.items[hash_key][range_key] = kept.item
