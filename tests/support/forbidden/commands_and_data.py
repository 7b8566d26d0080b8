"""Commands to hosts, settings, secrets, the ledger, files, messages and metrics that are none of a role's business."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peaker_contract.metrics import events_namespace
from peaker_contract.names import undelivered
from peaker_contract.permissions import Permission as P
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role
from tests.support.forbidden.setting import OTHER, Setting

DOCUMENTS = sorted(
    path.stem for path in (Path(__file__).resolve().parents[3] / "ssm_documents").glob("*.yaml")
)
# Whoever sends nothing else reaches no base replica.
OWN_REPLICAS_ONLY = {
    *(
        "assemble_storage",
        "start_prewarm",
        "start_fill",
        "report_prewarm",
        "verify_storage",
        "load_buffer_pool",
    ),
    *("check_mounts", "stop_database", "report_work"),
}
KEY = {"pk": {"S": "CLUSTER#orders"}, "sk": {"S": "LEASE"}}
ROWS = (P.WRITE_LEDGER, P.KEEP_FORECASTS)
Action = Callable[[Any], object]


def cells(role: Role, s: Setting) -> Iterator[Cell]:
    yield from _commands(role, s)
    yield from _parameters(role, s)
    yield from _rows(role, s)
    yield from _files(role, s)
    yield from _messages(role, s)
    yield from _metrics(role, s)


def _send(document: str, **where: Any) -> Action:
    return lambda c: c.send_command(DocumentName=document, **where)


def _commands(role: Role, s: Setting) -> Iterator[Cell]:
    own = [s.names.document(name) for name in role.documents] or [s.names.document("report_health")]
    for whose, one in s.instances.items():
        if whose in ("own", "a base replica"):
            continue
        for document in own:
            sent = _send(document, InstanceIds=[one])
            yield Cell(f"send {document}: {whose}", "ssm", sent)
    for key in ("cluster", "role", "environment", "owner"):
        targets = [{"Key": f"tag:peaker:{key}", "Values": ["orders", "replica", "local", OTHER]}]
        yield Cell(f"send {own[0]} by the tag {key}", "ssm", _send(own[0], Targets=targets))
    for name in DOCUMENTS:
        document = s.names.document(name)
        if name not in role.documents:
            sent = _send(document, InstanceIds=[s.own_instance])
            yield Cell(f"send {document}: own", "ssm", sent, someones_job=True)
        elif not OWN_REPLICAS_ONLY.issuperset(role.documents):
            continue
        base = s.instances["a base replica"]
        yield Cell(f"send {document}: a base replica", "ssm", _send(document, InstanceIds=[base]), True)
    for document in (
        *("AWS-RunShellScript", "AWS-RunRemoteScript", "AWS-UpdateSSMAgent"),
        *(f"Peaker-{OTHER}-{name}" for name in role.documents or ("stop_database",)),
    ):
        yield Cell(f"send {document}: own", "ssm", _send(document, InstanceIds=[s.own_instance]))
    for name in own:
        yield Cell(f"delete {name}", "ssm", lambda c, name=name: c.delete_document(Name=name))


def _parameters(role: Role, s: Setting) -> Iterator[Cell]:
    cluster, prices = s.names.cluster_parameter("orders"), s.names.prices_parameter
    theirs = (f"/peaker/{OTHER}/clusters/orders", f"/peaker/{OTHER}/prices", "/shop/database/password")
    readers = (P.READ_CLUSTER_SETTINGS,)
    read_by_people = role.is_set("read", "operate", "rehearse")
    if not role.holds(*readers) and not read_by_people:
        yield Cell("read its settings", "ssm", lambda c: c.get_parameter(Name=cluster), True)
    if not role.holds(P.READ_PRICES, P.FETCH_PRICES) and not read_by_people:
        yield Cell("read the prices", "ssm", lambda c: c.get_parameter(Name=prices), True)
    if not role.holds(P.FETCH_PRICES):
        put = lambda c: c.put_parameter(Name=prices, Value="{}", Type="String", Overwrite=True)  # noqa: E731
        yield Cell("write the prices", "ssm", put, True)
    for name in theirs:
        yield Cell(f"read {name}", "ssm", lambda c, name=name: c.get_parameter(Name=name))
    for name in ("/", "/peaker", f"/peaker/{OTHER}/clusters/"):
        yield Cell(
            f"read all below {name}",
            "ssm",
            lambda c, name=name: c.get_parameters_by_path(Path=name, Recursive=True),
        )
    for name in (cluster, *theirs):
        yield Cell(
            f"write {name}",
            "ssm",
            lambda c, name=name: c.put_parameter(Name=name, Value="{}", Type="String", Overwrite=True),
            name == cluster,
        )


def _rows(role: Role, s: Setting) -> Iterator[Cell]:
    own, theirs = s.names.ledger_table, f"peaker-{OTHER}-ledger"
    asked = {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "CLUSTER#orders"}},
    }
    change = {
        "UpdateExpression": "SET holder = :h",
        "ExpressionAttributeValues": {":h": {"S": "me"}},
    }
    reading: dict[str, tuple[Callable[[Any, str], object], bool]] = {
        "read a row of": (
            lambda c, table: c.get_item(TableName=table, Key=KEY),
            role.holds(*ROWS) or role.is_set("read", "operate")),
        "ask": (
            lambda c, table: c.query(TableName=table, **asked),
            role.holds(*ROWS, P.READ_LEDGER) or role.is_set("read", "operate")),
        "write a row of": (lambda c, table: c.put_item(TableName=table, Item=KEY), role.holds(*ROWS)),
        "change a row of": (
            lambda c, table: c.update_item(TableName=table, Key=KEY, **change),
            role.holds(P.WRITE_LEDGER)),
        "write in a transaction to": (
            lambda c, table: c.transact_write_items(
                TransactItems=[{"Put": {"TableName": table, "Item": KEY}}]), role.holds(*ROWS)),
    }  # fmt: skip
    for verb, (call, job) in reading.items():
        if not job:
            yield Cell(f"{verb} {own}", "dynamodb", lambda c, call=call: call(c, own), True)
        yield Cell(f"{verb} {theirs}", "dynamodb", lambda c, call=call: call(c, theirs))


def _files(role: Role, s: Setting) -> Iterator[Cell]:
    own = s.names.run_files_bucket
    theirs = own.replace(f"peaker-{s.environment}", f"peaker-{OTHER}")
    in_run = "runs/scale-out-orders-1/blocks"
    for bucket, key in ((theirs, in_run), ("foreign-bucket", "k"), (own, "elsewhere"), (own, in_run)):
        if (bucket, key) == (own, in_run) and role.holds(P.PUBLISH_RUN_FILES):
            continue
        a_job = (bucket, key) == (own, in_run)
        yield from _read_and_write(bucket, key, a_job)
    yield from _read_and_write(s.package_bucket, "another-product/secret.zip", False)


def _read_and_write(bucket: str, key: str, a_job: bool) -> Iterator[Cell]:
    place = {"Bucket": bucket, "Key": key}
    yield Cell(f"read s3://{bucket}/{key}", "s3", lambda c: c.get_object(**place), a_job)
    yield Cell(f"write s3://{bucket}/{key}", "s3", lambda c: c.put_object(**place, Body=b""), a_job)


def _messages(role: Role, s: Setting) -> Iterator[Cell]:
    topics = [
        s.names.arn("sns", f"{prefix}-operator-alarms") for prefix in (s.names.prefix, f"peaker-{OTHER}")
    ]
    for topic in topics:
        a_job = topic == topics[0]
        if not (a_job and role.holds(P.TELL_OPERATORS)):
            paged = lambda c, topic=topic: c.publish(TopicArn=topic, Message="all is well")  # noqa: E731
            yield Cell(f"page by {topic}", "sns", paged, a_job)
    letters = (f"{s.names.prefix}-prices", s.names.operator_topic, f"peaker-{OTHER}-prices")
    for name in map(undelivered, letters):
        url = f"https://sqs.us-east-1.amazonaws.com/{s.account}/{name}"
        yield Cell(f"send to {name}", "sqs", lambda c, u=url: c.send_message(QueueUrl=u, MessageBody="{}"))
        own_letters = name.startswith(s.names.prefix)
        if not (own_letters and role.is_set("operate")):
            yield Cell(f"receive from {name}", "sqs", lambda c, u=url: c.receive_message(QueueUrl=u))
            yield Cell(f"empty {name}", "sqs", lambda c, u=url: c.purge_queue(QueueUrl=u))
        yield Cell(f"delete {name}", "sqs", lambda c, u=url: c.delete_queue(QueueUrl=u))


def _metrics(role: Role, s: Setting) -> Iterator[Cell]:
    data = [{"MetricName": "ReplicaShortage", "Value": 9}]

    def publish(namespace: str) -> Action:
        return lambda c: c.put_metric_data(Namespace=namespace, MetricData=data)

    if not role.holds(P.PUBLISH_METRICS):
        yield Cell("publish the forecast", "cloudwatch", publish(s.names.metric_namespace), True)
    markers = events_namespace(s.names.environment.environment)
    for namespace in (f"Peaker/{OTHER}", "Peaker/Demand", markers, "AWS/EC2"):
        yield Cell(f"publish under {namespace}", "cloudwatch", publish(namespace))
