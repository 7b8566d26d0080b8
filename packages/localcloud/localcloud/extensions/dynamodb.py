"""DynamoDB transactions that other writers do not lose by: a failed one takes back its own items and no more.

moto copies the whole table before each item of a transaction and puts the copy back when it fails. That undoes what
others wrote meanwhile, and costs more with every row. Here the items of the transaction are kept, and others wait.

moto's transactions never meet. On AWS one that names an item, be it for a check alone, which another is at work on is
cancelled (`TransactionConflict`), and so is a single write of that item (developer guide, "Transaction conflict
handling in DynamoDB"); no SDK sends a cancelled one again. Here a transaction has its items for some milliseconds.

moto also sorts the whole table for each query, which slows every later step of a long-lived cloud. Here a query of
the table looks at its partition alone. And it copies each item that it gives by the machinery for any object, which
takes most of a query's time; the values of an item are trees of plain values, and are copied as such.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# moto makes an item before it has checked the condition of an update, so readers wait as well.
READS = ("get_item", "query", "scan")
SINGLE_WRITES = ("put_item", "update_item", "delete_item")
CONFLICT = "Transaction is ongoing for the item"

Item = tuple[str, str]


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

    transactions = _Transactions(lambda: cloud.closing.wait(cloud.settings.transaction_seconds))
    lock = transactions.lock
    own_copies = SimpleNamespace(
        deepcopy=lambda value, memo=None: value if isinstance(value, Table) else copy.deepcopy(value, memo),
        copy=copy.copy,
    )
    cloud.patch(models, "copy", own_copies)
    original = DynamoDBBackend.transact_write_items

    def transact_write_items(self: Any, transact_items: Sequence[Mapping[str, Any]]) -> None:
        with transactions.at_work([_item(self, *_named(one)) for one in transact_items]), lock:
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
    for name in READS:
        cloud.patch(DynamoDBBackend, name, _waiting(getattr(DynamoDBBackend, name), lock))
    for name in SINGLE_WRITES:
        cloud.patch(DynamoDBBackend, name, _undisturbed(getattr(DynamoDBBackend, name), transactions))


class _Transactions:
    """Which items transactions are at work on, each by the thread of its transaction."""

    def __init__(self, last: Callable[[], Any]) -> None:
        self.lock = threading.RLock()
        self._last = last
        self._items: dict[Item, int] = {}

    @contextmanager
    def at_work(self, items: Sequence[Item | None]) -> Iterator[None]:
        """Have the items, for as long as AWS would. Raises TransactionCanceledException where another has one."""
        from moto.dynamodb.exceptions import TransactionCanceledException

        with self.lock:
            taken = [self.is_taken(item) for item in items]
            if any(taken):
                said = ("TransactionConflict", CONFLICT, None)
                raise TransactionCanceledException([said if one else (None, None, None) for one in taken])
            mine = {item: threading.get_ident() for item in items if item is not None}
            self._items |= mine
        try:
            self._last()
            yield
        finally:
            with self.lock:
                for item in mine:
                    self._items.pop(item, None)

    def is_taken(self, item: Item | None) -> bool:
        """By a transaction of another thread."""
        return item is not None and self._items.get(item, threading.get_ident()) != threading.get_ident()


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


def _undisturbed(write: Callable[..., Any], transactions: _Transactions) -> Callable[..., Any]:
    from moto.dynamodb.exceptions import DynamodbException

    @wraps(write)
    def alone(self: Any, table_name: str, item_or_key: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        with transactions.lock:
            if transactions.is_taken(_item(self, table_name, item_or_key)):
                code = "com.amazonaws.dynamodb.v20120810#TransactionConflictException"
                raise DynamodbException(code, CONFLICT)
            return write(self, table_name, item_or_key, *args, **kwargs)

    return alone


def _key(backend: Any, table_name: str, attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The key among these attributes; None for what moto will refuse."""
    table = backend.tables.get(table_name)
    if table is None:
        return None
    key = {name: attributes.get(name) for name in (table.hash_key_attr, table.range_key_attr) if name}
    return None if None in key.values() else key


def _item(backend: Any, table_name: str, attributes: Mapping[str, Any]) -> Item | None:
    key = _key(backend, table_name, attributes)
    return None if key is None else (table_name, str(key))


def _named(entry: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The table and the attributes of the item that one entry of a transaction names."""
    operation, body = next(iter(entry.items()))
    return body.get("TableName", ""), body.get("Item" if operation == "Put" else "Key", {})


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
    name, attributes = _named(entry)
    key = _key(backend, name, attributes)
    if key is None or "ConditionCheck" in entry:
        return []
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
