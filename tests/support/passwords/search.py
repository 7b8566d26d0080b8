"""Whether a password is in what AWS keeps of a run, in whatever encoding: `holding(cloud, password)`.

Of each word of the password (letters and digits: JSON, URL, SQL, shell and HTML leave them as they are, and a text that
was cut at a quote still has one) these are looked for: itself in any case, as base64 wherever in a longer text it
begins, as hexadecimal, and as UTF-16.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from localcloud.extensions.stepfunctions.executions import executions
from localcloud.open_cloud import OpenCloud as LocalCloud

SHORTEST_WORD = 6
Kept = Iterator[tuple[str, Any]]


@cache
def spellings(password: str) -> tuple[set[bytes], set[bytes]]:
    """What to look for: (in any case, in this case only, where no line break counts)."""
    words = [one.encode() for one in re.findall(r"[A-Za-z0-9]+", password) if len(one) >= SHORTEST_WORD]
    if not words:
        raise ValueError(f"the password has no word of {SHORTEST_WORD} letters and digits")
    as_text = {spelled.lower() for one in words for spelled in (one, one.hex().encode())}
    as_text |= {one.decode().encode("utf-16-le").lower() for one in words}
    return as_text, {core for one in words for shift in range(3) for core in _base64_cores(one, shift)}


def _base64_cores(word: bytes, shift: int) -> Iterator[bytes]:
    """The characters that depend on nothing but the word, when it begins `shift` bytes after a multiple of three."""
    whole = (shift + len(word)) // 3 * 4
    skipped = -(-shift * 4 // 3)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(b"\0" * shift + word)[skipped:whole]


def holds(password: str, content: bytes) -> bool:
    """Whether any of its words is in there."""
    as_text, as_base64 = spellings(password)
    lowered = content.lower()
    if any(one in lowered for one in as_text):
        return True
    unwrapped = re.sub(rb"\\r|\\n|\s", b"", content)
    return any(one in unwrapped for one in as_base64)


def holding(cloud: LocalCloud, password: str, *places: str) -> list[str]:
    """Where it is: `place: address` of each thing that holds it. Of all places, or of these."""
    return [
        f"{place}: {address}"
        for place in places or PLACES
        for address, kept in PLACES[place](cloud)
        if holds(password, _as_bytes(kept))
    ]


def _as_bytes(kept: Any) -> bytes:
    if isinstance(kept, bytes):
        return kept
    return json.dumps(kept, default=_written, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _written(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _pages(client: Any, operation: str, result: str, **given: Any) -> Iterator[Any]:
    for page in client.get_paginator(operation).paginate(**given):
        yield from page.get(result, ())


def _executions(cloud: LocalCloud) -> Kept:
    """Name, input, output, error and cause of every execution, children too, and every event of its history."""
    for one in executions():
        # As they are in this process: pages over the API take as long as some steps of a workflow.
        yield one.exec_arn, one.to_describe_output()
        if one.exec_worker is not None:
            yield f"history of {one.exec_arn}", one.to_history_output()


def _workflows(cloud: LocalCloud) -> Kept:
    client = cloud.client("stepfunctions")
    for one in _pages(client, "list_state_machines", "stateMachines"):
        yield one["name"], client.describe_state_machine(stateMachineArn=one["stateMachineArn"])


def _commands(cloud: LocalCloud) -> Kept:
    """Parameters, comment, standard output and standard error."""
    client = cloud.client("ssm")
    for one in _pages(client, "list_commands", "Commands"):
        yield one["CommandId"], one
    for one in _pages(client, "list_command_invocations", "CommandInvocations", Details=True):
        said = client.get_command_invocation(CommandId=one["CommandId"], InstanceId=one["InstanceId"])
        yield f"{one['CommandId']} on {one['InstanceId']}", [one, said]


def _host_programs(cloud: LocalCloud) -> Kept:
    """What Systems Manager's agent was told to run: command lines as a host's process list shows them."""
    hosts = getattr(cloud.dataplane, "hosts", None)
    for instance_id, host in dict(getattr(hosts, "hosts", {})).items():
        yield instance_id, host.commands


def _parameters(cloud: LocalCloud) -> Kept:
    """The clusters' settings and the prices among them."""
    for one in _pages(cloud.client("ssm"), "get_parameters_by_path", "Parameters", Path="/", Recursive=True):
        yield one["Name"], one


def _function_logs(cloud: LocalCloud) -> Kept:
    """What functions print lies in files here; the local cloud's own, of requests and errors, lie beside them."""
    for path in sorted((cloud.state_dir / "logs").rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()


def _log_groups(cloud: LocalCloud) -> Kept:
    client = cloud.client("logs")
    for group in _pages(client, "describe_log_groups", "logGroups"):
        name = group["logGroupName"]
        for event in _pages(client, "filter_log_events", "events", logGroupName=name):
            yield name, event


def _functions(cloud: LocalCloud) -> Kept:
    """Their environment among the rest."""
    for one in _pages(cloud.client("lambda"), "list_functions", "Functions"):
        yield one["FunctionName"], one


def _tables(cloud: LocalCloud) -> Kept:
    """Ledger, leases, receipts."""
    client = cloud.client("dynamodb")
    for table in _pages(client, "list_tables", "TableNames"):
        for item in _pages(client, "scan", "Items", TableName=table):
            yield f"{table} {item['pk']}" if "pk" in item else table, item


def _files(cloud: LocalCloud) -> Kept:
    client = cloud.client("s3")
    for bucket in client.list_buckets()["Buckets"]:
        for one in _pages(client, "list_objects_v2", "Contents", Bucket=bucket["Name"]):
            answer = client.get_object(Bucket=bucket["Name"], Key=one["Key"])
            yield f"s3://{bucket['Name']}/{one['Key']}", [one["Key"], answer["Metadata"]]
            yield f"s3://{bucket['Name']}/{one['Key']}", answer["Body"].read()


def _metrics(cloud: LocalCloud) -> Kept:
    """Names and dimensions, and the alarms on them with their history."""
    client = cloud.client("cloudwatch")
    for one in _pages(client, "list_metrics", "Metrics"):
        yield f"{one['Namespace']} {one['MetricName']}", one
    for one in _pages(client, "describe_alarms", "MetricAlarms"):
        yield one["AlarmName"], one
    for one in _pages(client, "describe_alarm_history", "AlarmHistoryItems"):
        yield f"history of {one['AlarmName']}", one


def _rules(cloud: LocalCloud) -> Kept:
    client = cloud.client("events")
    for rule in client.list_rules()["Rules"]:
        yield rule["Name"], [rule, client.list_targets_by_rule(Rule=rule["Name"])["Targets"]]


def _queues(cloud: LocalCloud) -> Kept:
    """The events, pages and dead letters that lie there: read in this process, so that none is hidden from others."""
    from moto.sqs.models import sqs_backends

    for queue in sqs_backends[cloud.settings.account_id][cloud.settings.region].queues.values():
        for one in list(queue._messages):
            yield queue.name, [one.body, one.message_attributes]


def _topics(cloud: LocalCloud) -> Kept:
    """What was published: SNS has no call for that, its state in this process has it."""
    from moto.sns.models import sns_backends

    for topic in sns_backends[cloud.settings.account_id][cloud.settings.region].topics.values():
        yield topic.name, [[str(part) for part in sent] for sent in topic.sent_notifications]


def _machines(cloud: LocalCloud) -> Kept:
    """Instances with user data and tags, volumes, snapshots."""
    client = cloud.client("ec2")
    for group in _pages(client, "describe_instances", "Reservations"):
        for one in group["Instances"]:
            instance_id = one["InstanceId"]
            given = client.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
            yield instance_id, [one, given["UserData"]]
    for one in _pages(client, "describe_volumes", "Volumes"):
        yield one["VolumeId"], one
    for one in _pages(client, "describe_snapshots", "Snapshots", OwnerIds=["self"]):
        yield one["SnapshotId"], one
    for one in _pages(client, "describe_tags", "Tags"):
        yield f"tag of {one['ResourceId']}", one


PLACES: Mapping[str, Callable[[LocalCloud], Kept]] = {
    "executions": _executions,
    "workflows": _workflows,
    "commands": _commands,
    "programs on hosts": _host_programs,
    "parameters": _parameters,
    "function logs": _function_logs,
    "log groups": _log_groups,
    "functions": _functions,
    "tables": _tables,
    "files": _files,
    "metrics and alarms": _metrics,
    "rules": _rules,
    "queues": _queues,
    "topics": _topics,
    "machines": _machines,
}
