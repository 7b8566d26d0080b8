"""DynamoDB transactions of the local cloud: all or nothing, and never at another writer's cost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud

TABLE = "rows"


@pytest.fixture
def dynamodb(tmp_path: Path) -> Iterator[Any]:
    with LocalCloud(None, tmp_path) as cloud:
        yield with_a_table(cloud)


def with_a_table(cloud: LocalCloud) -> Any:
    client = cloud.client("dynamodb")
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": sk}}


def put(sk: str, value: str) -> dict[str, Any]:
    return {"Put": {"TableName": TABLE, "Item": {**key(sk), "value": {"S": value}}}}


def update(sk: str, value: str) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": TABLE,
            "Key": key(sk),
            "UpdateExpression": "SET #v = :v",
            "ExpressionAttributeNames": {"#v": "value"},
            "ExpressionAttributeValues": {":v": {"S": value}},
        }
    }


def refuse(sk: str) -> dict[str, Any]:
    return {
        "ConditionCheck": {"TableName": TABLE, "Key": key(sk), "ConditionExpression": "attribute_exists(pk)"}
    }


def values(dynamodb: Any) -> dict[str, str]:
    return {item["sk"]["S"]: item["value"]["S"] for item in dynamodb.scan(TableName=TABLE)["Items"]}


def test_refused_transactions_take_nothing_from_other_writers(dynamodb: Any) -> None:
    def refused() -> None:
        for number in range(30):
            with pytest.raises(ClientError):
                dynamodb.transact_write_items(TransactItems=[put(f"never{number}", "x"), refuse("none")])

    thread = threading.Thread(target=refused)
    thread.start()
    for number in range(60):
        dynamodb.put_item(TableName=TABLE, Item={**key(f"kept{number:02d}"), "value": {"S": "1"}})
    thread.join()
    assert values(dynamodb) == {f"kept{number:02d}": "1" for number in range(60)}


def test_who_names_an_item_that_a_transaction_is_at_work_on_is_cancelled(tmp_path: Path) -> None:
    with LocalCloud(None, tmp_path, settings=CloudSettings(transaction_seconds=600)) as cloud:
        dynamodb = with_a_table(cloud)
        held = {**key("held"), "value": {"S": "before"}}
        dynamodb.put_item(TableName=TABLE, Item=held)
        at_work = threading.Thread(
            target=ends_with_the_cloud, args=(dynamodb, [refuse("held"), put("a", "1")])
        )
        at_work.start()
        assert code_once_it_is_refused(dynamodb, held) == "TransactionConflictException"
        with pytest.raises(ClientError) as error:
            dynamodb.transact_write_items(TransactItems=[put("b", "2"), refuse("held")])
        reasons = error.value.response["CancellationReasons"]
        assert [reason["Code"] for reason in reasons] == ["None", "TransactionConflict"]
        assert values(dynamodb) == {"held": "before"}
    at_work.join()


def code_once_it_is_refused(dynamodb: Any, item: dict[str, Any]) -> str:
    while True:
        try:
            dynamodb.put_item(TableName=TABLE, Item=item)
        except ClientError as refused:
            return str(refused.response["Error"]["Code"])


def ends_with_the_cloud(dynamodb: Any, entries: list[dict[str, Any]]) -> None:
    with contextlib.suppress(ClientError, BotoCoreError):
        dynamodb.transact_write_items(TransactItems=entries)


def test_a_query_finds_its_own_partition_in_order(dynamodb: Any) -> None:
    for pk, sk in (("q", "b"), ("p", "b"), ("p", "a"), ("p", "other")):
        dynamodb.put_item(TableName=TABLE, Item={"pk": {"S": pk}, "sk": {"S": sk}, "value": {"S": pk + sk}})
    asked = {"TableName": TABLE, "KeyConditionExpression": "pk = :pk"}
    found = dynamodb.query(**asked, ExpressionAttributeValues={":pk": {"S": "p"}})
    assert [item["value"]["S"] for item in found["Items"]] == ["pa", "pb", "pother"]
    first = dynamodb.query(**asked, ExpressionAttributeValues={":pk": {"S": "p"}}, Limit=1)
    rest = dynamodb.query(
        **asked, ExpressionAttributeValues={":pk": {"S": "p"}}, ExclusiveStartKey=first["LastEvaluatedKey"]
    )
    assert [item["sk"]["S"] for item in first["Items"] + rest["Items"]] == ["a", "b", "other"]
    assert dynamodb.query(**asked, ExpressionAttributeValues={":pk": {"S": "none"}})["Items"] == []
