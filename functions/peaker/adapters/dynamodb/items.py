"""Items of the ledger table: keys, values, and writes that a lost lease stops (I6)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker.domain.decoding import understood
from peaker.domain.runs.ledger import Holder
from peaker_contract.errors import LeaseLost, LedgerInconsistent, Throttled

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

# What tells of a run is kept for as long as hourly metrics are (455 days), then DynamoDB drops it.
KEPT_FOR = timedelta(days=455)
# A transaction has its items for some milliseconds; all members of a large batch are through after a second.
CONFLICT_TRIES = 10
CONFLICT_PAUSE_SECONDS = (0.02, 0.2)
_CONDITION_FAILED = "ConditionalCheckFailed"
# Of a member of a batch, in the partition of its run: what its token is since it was fenced.
FENCE = "fence"

AnswerT = TypeVar("AnswerT")


class ConditionFailed(Exception):
    """The write's own condition did not hold; the caller knows what that means."""


def cluster_key(cluster: str) -> str:
    return f"cluster#{cluster}"


def run_key(run_id: str) -> str:
    return f"run#{run_id}"


def expiry(at: datetime) -> int:
    """Value of the TTL attribute expires_at, in epoch seconds."""
    return int((at + KEPT_FOR).timestamp())


def to_json(document: Mapping[str, Any]) -> str:
    """Documents are stored as text: DynamoDB has no floats and no empty keys."""
    return json.dumps(document, separators=(",", ":"), default=str)


class LedgerTable:
    """The table, with typed values in and out."""

    def __init__(
        self, dynamodb: DynamoDBClient, table: str, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._dynamodb = dynamodb
        self._pause = pause
        self._table = table
        self._serializer = TypeSerializer()
        self._deserializer = TypeDeserializer()

    def get(self, pk: str, sk: str) -> dict[str, Any] | None:
        """One item, read consistently."""
        with translated("dynamodb:GetItem"):
            answer = self._dynamodb.get_item(
                TableName=self._table, Key=self._wire({"pk": pk, "sk": sk}), ConsistentRead=True
            )
        item = answer.get("Item")
        with understood(LedgerInconsistent, f"the ledger's item {pk} {sk}"):
            return None if item is None else self._plain(item)

    def require_lease(self, holder: Holder) -> None:
        """Raises LeaseLost without the lease; by a consistent read, which throttles nobody's writes."""
        item = self.get(cluster_key(holder.cluster), "lease") or {}
        if (item.get("run_id"), item.get("fencing_token")) != (holder.lease_run, holder.fencing_token):
            raise _lease_lost(holder)
        if holder.member_token is not None and self.member_token(holder.run_id) != holder.member_token:
            raise _lease_lost(holder)

    def member_token(self, run_id: str) -> int:
        """Returns the token of a batch's member; 0 before it was ever fenced."""
        item = self.get(run_key(run_id), FENCE) or {}
        return int(item.get("member_token", 0))

    def fence_member(self, holder: Holder, at: datetime) -> int:
        """Move the member's token on, under the lease; the new one. Raises LeaseLost, Throttled where it just moved."""
        before = self.member_token(holder.run_id)
        try:
            self._transact(replace(holder, member_token=None), [self._fence(holder, before, at)])
        except ConditionFailed as moved:
            raise Throttled(f"{holder.run_id} was fenced just now; try again") from moved
        return before + 1

    def query(self, pk: str, sk_prefix: str) -> list[dict[str, Any]]:
        """All items of the partition whose sort key begins so, in its order, read consistently."""
        return list(self._queried(pk, "begins_with(sk, :sk)", {":sk": sk_prefix}, ConsistentRead=True))

    def query_between(self, pk: str, first: str, last: str) -> list[dict[str, Any]]:
        """The items of the partition from one sort key to another, in its order."""
        return list(self._queried(pk, "sk BETWEEN :first AND :last", {":first": first, ":last": last}))

    def newest(self, pk: str, sk_prefix: str, page_size: int, at_most: int) -> Iterator[dict[str, Any]]:
        """Yields items whose sort key begins so, the last first, a page at a time."""
        pages = {"PageSize": page_size, "MaxItems": at_most}
        return self._queried(
            pk, "begins_with(sk, :sk)", {":sk": sk_prefix}, ScanIndexForward=False, PaginationConfig=pages
        )

    def _queried(
        self, pk: str, condition: str, values: Mapping[str, Any], **how: Any
    ) -> Iterator[dict[str, Any]]:
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression=f"pk = :pk AND {condition}",
            ExpressionAttributeValues=self._wire({":pk": pk, **values}),
            **how,
        )
        with translated("dynamodb:Query"), understood(LedgerInconsistent, f"an item of the ledger's {pk}"):
            for page in pages:
                yield from [self._plain(item) for item in page["Items"]]

    def put_unleased(
        self, item: Mapping[str, Any], condition: str | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        """Put one item outside any lease. Raises ConditionFailed where the condition does not hold."""
        guard: dict[str, Any] = {}
        if condition is not None:
            guard = {
                "ConditionExpression": condition,
                "ExpressionAttributeValues": self._wire(values or {}),
            }
        with translated("dynamodb:PutItem"):
            try:
                self._dynamodb.put_item(TableName=self._table, Item=self._wire(item), **guard)
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                raise ConditionFailed from error

    def put_new(self, holder: Holder, items: Sequence[Mapping[str, Any]]) -> None:
        """Put items that must not exist. Raises ConditionFailed when one does, LeaseLost without the lease."""
        writes: list[TransactWriteItemTypeDef] = [
            {
                "Put": {
                    "TableName": self._table,
                    "Item": self._wire(item),
                    "ConditionExpression": "attribute_not_exists(pk)",
                }
            }
            for item in items
        ]
        self._transact(holder, writes)

    def put(self, holder: Holder, item: Mapping[str, Any]) -> None:
        """Put one item over what is there. Raises LeaseLost without the lease."""
        self._transact(holder, [{"Put": {"TableName": self._table, "Item": self._wire(item)}}])

    def put_while(
        self,
        holder: Holder,
        item: Mapping[str, Any],
        keys: Collection[tuple[str, str]],
        name: str,
        value: str,
    ) -> None:
        """Put one item while the attribute `name` of each of `keys` (pk, sk) has this value, in one transaction.

        Raises ConditionFailed where one has not, LeaseLost without the lease. A transaction holds 100 actions.
        """
        checks: list[TransactWriteItemTypeDef] = [
            {
                "ConditionCheck": {
                    "TableName": self._table,
                    "Key": self._wire({"pk": pk, "sk": sk}),
                    "ConditionExpression": "#name = :value",
                    "ExpressionAttributeNames": {"#name": name},
                    "ExpressionAttributeValues": self._wire({":value": value}),
                }
            }
            for pk, sk in keys
        ]
        self._transact(holder, [{"Put": {"TableName": self._table, "Item": self._wire(item)}}, *checks])

    def put_after(self, holder: Holder, item: Mapping[str, Any], name: str, value: str) -> None:
        """Put one item where there is none, or where the attribute `name` of the one that is there is at most this
        value. Raises ConditionFailed, LeaseLost without the lease."""
        put: TransactWriteItemTypeDef = {
            "Put": {
                "TableName": self._table,
                "Item": self._wire(item),
                "ConditionExpression": "attribute_not_exists(pk) OR #name <= :value",
                "ExpressionAttributeNames": {"#name": name},
                "ExpressionAttributeValues": self._wire({":value": value}),
            }
        }
        self._transact(holder, [put])

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
        """Set attributes; those in `keep` only where they are not set yet. Raises LeaseLost without the lease.

        `lease_until` moves the end of the lease in the same transaction.
        """
        self._transact(holder, [self._update(pk, sk, values, keep, must_exist)], lease_until)

    def update_all(
        self, holder: Holder, keys: Collection[tuple[str, str]], values: Mapping[str, Any]
    ) -> None:
        """Set the same attributes of several items (pk, sk) in one transaction. Raises LeaseLost without the lease."""
        self._transact(holder, [self._update(pk, sk, values) for pk, sk in keys])

    def _update(
        self,
        pk: str,
        sk: str,
        values: Mapping[str, Any],
        keep: frozenset[str] = frozenset(),
        must_exist: bool = False,
    ) -> TransactWriteItemTypeDef:
        names = {f"#{index}": name for index, name in enumerate(values)}
        wire = {f":{index}": value for index, value in enumerate(values.values())}
        sets = [
            f"{alias} = if_not_exists({alias}, :{alias[1:]})" if name in keep else f"{alias} = :{alias[1:]}"
            for alias, name in names.items()
        ]
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": self._wire({"pk": pk, "sk": sk}),
            "UpdateExpression": f"SET {', '.join(sets)}",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": self._wire(wire),
        }
        if must_exist:
            update["ConditionExpression"] = "attribute_exists(pk)"
        return {"Update": update}  # type: ignore[typeddict-item]

    def update_if(
        self,
        pk: str,
        sk: str,
        expression: str,
        condition: str,
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        """One conditional update outside any lease; returns the new item. Raises ConditionFailed."""
        with translated("dynamodb:UpdateItem"):
            return self._update_if(pk, sk, expression, condition, values)

    def _update_if(
        self, pk: str, sk: str, expression: str, condition: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            answer = self._undisturbed(
                lambda: self._dynamodb.update_item(
                    TableName=self._table,
                    Key=self._wire({"pk": pk, "sk": sk}),
                    UpdateExpression=expression,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=self._wire(values),
                    ReturnValues="ALL_NEW",
                )
            )
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                raise ConditionFailed from error
            raise
        return self._plain(answer["Attributes"])

    def _transact(
        self, holder: Holder, writes: list[TransactWriteItemTypeDef], lease_until: str | None = None
    ) -> None:
        guards = [self._lease_condition(holder, lease_until), *self._member_condition(holder)]
        items = [*guards, *writes]
        with translated("dynamodb:TransactWriteItems"):
            try:
                self._undisturbed(lambda: self._dynamodb.transact_write_items(TransactItems=items))
            except ClientError as error:
                if error_code(error) != "TransactionCanceledException":
                    raise
                raise _cancelled(holder, len(guards), error) from error

    def _undisturbed(self, send: Callable[[], AnswerT]) -> AnswerT:
        """Send it, and again after moments while another transaction is at work on one of its items.

        The members of a batch write at the same time, each with a condition on their one lease. DynamoDB cancels all
        but one of such transactions, and the SDK sends none of them again (developer guide, "Transaction conflict
        handling in DynamoDB").
        """
        for _ in range(CONFLICT_TRIES - 1):
            try:
                return send()
            except ClientError as error:
                if not _met_another(error):
                    raise
            self._pause(random.uniform(*CONFLICT_PAUSE_SECONDS))
        return send()

    def _lease_condition(self, holder: Holder, lease_until: str | None) -> TransactWriteItemTypeDef:
        values = {":run": holder.lease_run, ":token": holder.fencing_token, ":until": lease_until}
        condition: Any = {
            "TableName": self._table,
            "Key": self._wire({"pk": cluster_key(holder.cluster), "sk": "lease"}),
            "ConditionExpression": "run_id = :run AND fencing_token = :token",
            "ExpressionAttributeValues": self._wire(values),
        }
        if lease_until is None:
            return {"ConditionCheck": condition}
        condition["UpdateExpression"] = "SET held_until = :until"
        return {"Update": condition}

    def _member_condition(self, holder: Holder) -> list[TransactWriteItemTypeDef]:
        """Returns the condition that a batch's member was not fenced since its token was given."""
        if holder.member_token is None:
            return []
        return [{"ConditionCheck": self._token_is(holder, holder.member_token)}]  # type: ignore[typeddict-item]

    def _fence(self, holder: Holder, before: int, at: datetime) -> TransactWriteItemTypeDef:
        update = self._token_is(holder, before)
        update["UpdateExpression"] = "SET member_token = :next, expires_at = :end"
        update["ExpressionAttributeValues"] |= self._wire({":next": before + 1, ":end": expiry(at)})
        return {"Update": update}  # type: ignore[typeddict-item]

    def _token_is(self, holder: Holder, token: int) -> dict[str, Any]:
        absent = "attribute_not_exists(member_token) OR " if token == 0 else ""
        return {
            "TableName": self._table,
            "Key": self._wire({"pk": run_key(holder.run_id), "sk": FENCE}),
            "ConditionExpression": f"{absent}member_token = :member",
            "ExpressionAttributeValues": self._wire({":member": token}),
        }

    def _wire(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._serializer.serialize(value) for name, value in values.items() if value is not None
        }

    def _plain(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._deserializer.deserialize(value) for name, value in item.items()}


def _lease_lost(holder: Holder) -> LeaseLost:
    return LeaseLost(
        f"{holder.run_id} holds the lease of {holder.cluster} no more (token {holder.fencing_token})"
    )


def _met_another(error: ClientError) -> bool:
    """Tells whether only another transaction on the same item cancelled this one."""
    if error_code(error) == "TransactionConflictException":
        return True
    return set(_cancellation_codes(error)) - {"None"} == {"TransactionConflict"}


def _cancellation_codes(error: ClientError) -> list[str]:
    """Returns a cancelled transaction's codes, one for each of its items, "None" where nothing was wrong with it."""
    reasons: list[Any] = list(error.response.get("CancellationReasons") or [])
    return [reason.get("Code", "None") for reason in reasons]


def _cancelled(holder: Holder, guards: int, error: ClientError) -> Exception:
    """`guards` of the transaction's items come first: they hold the lease, and the member's token."""
    codes = _cancellation_codes(error)
    if _CONDITION_FAILED in codes[:guards]:
        return _lease_lost(holder)
    if _CONDITION_FAILED in codes:
        return ConditionFailed()
    if {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"} & set(codes):
        return Throttled(f"dynamodb:TransactWriteItems: {', '.join(codes)}")
    return error
