"""What the calls of DynamoDB need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localcloud.iam.account import Account
from localcloud.iam.need import Need, Needs, Params, arn, for_each

TRANSACTED = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}


def _table(look: Account, name: str) -> str:
    return name if name.startswith("arn:") else arn(look, "dynamodb", f"table/{name}")


def _item(action: str, params: Params, look: Account) -> Need:
    table = str(params["TableName"])
    keys: dict[str, Sequence[str] | None] = {}
    holder = params.get("Key") or params.get("Item")
    hash_key = look.hash_key(table.rsplit("/", 1)[-1])
    if holder and hash_key in holder:
        keys["dynamodb:leadingkeys"] = (str(next(iter(holder[hash_key].values()))),)
    return Need(f"dynamodb:{action}", _table(look, table), "table", keys)


def _on_item(action: str) -> Needs:
    return lambda params, look: [_item(action, params, look)]


def _query(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        table = _table(look, str(params["TableName"]))
        index = params.get("IndexName")
        if index:
            return [Need(f"dynamodb:{action}", f"{table}/index/{index}", "index")]
        return [Need(f"dynamodb:{action}", table, "table")]

    return needs


def _transact_write(params: Params, look: Account) -> Iterator[Need]:
    for item in params["TransactItems"]:
        for part, action in TRANSACTED.items():
            if part in item:
                yield _item(action, item[part], look)


def _transact_get(params: Params, look: Account) -> Iterator[Need]:
    for item in params["TransactItems"]:
        yield _item("GetItem", item["Get"], look)


def _with_table_key(needs: Needs) -> Needs:
    """DynamoDB opens the key of an encrypted table as whoever calls (its guide, "Encryption at rest: usage notes")."""

    def with_key(params: Params, look: Account) -> Iterator[Need]:
        tables: dict[str, None] = {}
        for need in needs(params, look):
            tables[need.resource] = None
            yield need
        for table in tables:
            key = look.key_of_table(table)
            via = {
                "kms:viaservice": (f"dynamodb.{look.region}.amazonaws.com",),
                "kms:calleraccount": (look.account_id,),
            }
            if key:
                yield Need("kms:Decrypt", key, "key", via)

    return with_key


DYNAMODB: dict[str, Needs] = {
    **{
        name: _with_table_key(needs)
        for name, needs in {
            **for_each(_on_item, ("GetItem", "PutItem", "UpdateItem", "DeleteItem"), "dynamodb"),
            **for_each(_query, ("Query", "Scan"), "dynamodb"),
            "dynamodb:TransactWriteItems": _transact_write,
            "dynamodb:TransactGetItems": _transact_get,
        }.items()
    },
    **for_each(_query, ("DescribeTable", "CreateTable", "DeleteTable", "UpdateTimeToLive"), "dynamodb"),
}
