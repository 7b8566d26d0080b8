"""What a rehearsal makes by name: queue, rules, alarm, SSM document, role, state machines and table.

Each is found by the rehearsal's own name, so a second call makes nothing twice and a removal needs no list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from peaker_cli.rehearse.resources import EVENT_SOURCE, REHEARSAL_TAG, Resources, absent, unless

TRUSTED_BY = "states.amazonaws.com"
# IAM is eventually consistent: Step Functions cannot assume a new role for some seconds.
_ROLE_IS_NEW = ("AccessDenied", "InvalidArn")


def queue(resources: Resources) -> str:
    """Returns the URL of the queue; the rehearsal's rules on the default bus may send there."""
    name, sqs = resources.own_name, resources.client("sqs")
    url = str(sqs.create_queue(QueueName=name, tags={REHEARSAL_TAG: resources.rehearsal})["QueueUrl"])
    arn = queue_arn(resources, url)
    rules = f"{arn.replace(':sqs:', ':events:').removesuffix(name)}rule/{name}*"
    allowed = {
        "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
        "Resource": arn, "Condition": {"ArnLike": {"aws:SourceArn": rules}},
    }  # fmt: skip
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return url


def queue_arn(resources: Resources, url: str) -> str:
    found = resources.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def rule(resources: Resources, name: str, pattern: Mapping[str, Any], **target: Any) -> None:
    """Makes a rule of the default bus that sends what matches to the queue."""
    events, whole = resources.client("events"), f"{resources.own_name}{name}"
    arn = queue_arn(resources, queue(resources))
    events.put_rule(Name=whole, EventPattern=json.dumps(pattern), Tags=resources.plain_tags)
    events.put_targets(Rule=whole, Targets=[{"Id": "queue", "Arn": arn, **target}])


def own_events(resources: Resources, kind: str, detail: Mapping[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"source": [EVENT_SOURCE], "detail-type": [detail_type(resources, kind)]}
    return {**found, "detail": dict(detail)} if detail else found


def detail_type(resources: Resources, kind: str) -> str:
    return f"{resources.rehearsal} {kind}"


def document(resources: Resources, script: str, parameters: Mapping[str, Any]) -> str:
    """Returns the name of the rehearsal's SSM document; its content is always the same."""
    step = {"name": "run", "action": "aws:runShellScript", "inputs": {"runCommand": [script]}}
    content = {"schemaVersion": "2.2", "parameters": dict(parameters), "mainSteps": [step]}
    asked = {"Name": resources.own_name, "DocumentType": "Command", "DocumentFormat": "JSON"}
    create = resources.client("ssm").create_document
    unless(
        ("DocumentAlreadyExists",),
        lambda: create(Content=json.dumps(content), Tags=resources.plain_tags, **asked),
    )
    describe = resources.client("ssm").describe_document
    resources.seconds_until(
        "the document", lambda: describe(Name=resources.own_name)["Document"]["Status"] == "Active"
    )
    return resources.own_name


def role(resources: Resources) -> str:
    """Returns the ARN of a role without any right, which Step Functions may assume."""
    iam, name = resources.client("iam"), resources.own_name
    trust = {"Effect": "Allow", "Principal": {"Service": TRUSTED_BY}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    unless(
        ("EntityAlreadyExists",),
        lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=document, Tags=resources.plain_tags),
    )
    return str(iam.get_role(RoleName=name)["Role"]["Arn"])


def machine(resources: Resources, name: str, states: Mapping[str, Any]) -> str | None:
    """Returns the ARN of a JSONata state machine that begins at its first state; None while its role is too new."""
    definition = {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": dict(states)}
    made = unless(
        _ROLE_IS_NEW,
        lambda: resources.client("stepfunctions").create_state_machine(
            name=f"{resources.own_name}-{name}",
            definition=json.dumps(definition),
            roleArn=role(resources),
            tags=[{"key": REHEARSAL_TAG, "value": resources.rehearsal}],
        ),
    )
    return str(made["stateMachineArn"]) if made else None


def table(resources: Resources) -> str:
    """Returns the name of the table once it is there: keys `pk` and `sk`, time to live in `expires`."""
    dynamodb, name = resources.client("dynamodb"), resources.own_name
    keys = (("pk", "HASH"), ("sk", "RANGE"))
    made = unless(
        ("ResourceInUse",),
        lambda: dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": one, "KeyType": kind} for one, kind in keys],
            AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one, _ in keys],
            BillingMode="PAY_PER_REQUEST",
            Tags=resources.plain_tags,
        ),
    )

    def is_active() -> bool:
        found = absent(lambda: dynamodb.describe_table(TableName=name))
        return bool(found) and found["Table"]["TableStatus"] == "ACTIVE"

    resources.seconds_until("the table", is_active)
    if made:
        lives = {"Enabled": True, "AttributeName": "expires"}
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=lives)
    return name


# -- removing --------------------------------------------------------------------------------------------------


def _rules(resources: Resources) -> list[str]:
    found = resources.client("events").list_rules(NamePrefix=resources.own_name)["Rules"]
    return [str(one["Name"]) for one in found]


def _remove_rule(resources: Resources, name: str) -> None:
    events = resources.client("events")
    absent(lambda: events.remove_targets(Rule=name, Ids=["queue"]))
    events.delete_rule(Name=name)


def _queues(resources: Resources) -> list[str]:
    return list(resources.client("sqs").list_queues(QueueNamePrefix=resources.own_name).get("QueueUrls", []))


def _alarms(resources: Resources) -> list[str]:
    found = resources.client("cloudwatch").describe_alarms(AlarmNamePrefix=resources.own_name)
    return [str(one["AlarmName"]) for one in found["MetricAlarms"]]


def _documents(resources: Resources) -> list[str]:
    describe = resources.client("ssm").describe_document
    found = unless(("InvalidDocument",), lambda: describe(Name=resources.own_name))
    return [resources.own_name] if found else []


def _machines(resources: Resources) -> list[str]:
    pages = resources.client("stepfunctions").get_paginator("list_state_machines").paginate()
    machines = [one for page in pages for one in page["stateMachines"]]
    return [
        str(one["stateMachineArn"]) for one in machines if one["name"].startswith(f"{resources.own_name}-")
    ]


def _remove_machine(resources: Resources, arn: str) -> None:
    """Ends its executions too: a machine that is deleted stays in the list as long as one of them runs."""
    states = resources.client("stepfunctions")
    for one in states.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]:
        states.stop_execution(executionArn=one["executionArn"])
    states.delete_state_machine(stateMachineArn=arn)


def _roles(resources: Resources) -> list[str]:
    get = resources.client("iam").get_role
    return [resources.own_name] if absent(lambda: get(RoleName=resources.own_name)) else []


def _tables(resources: Resources) -> list[str]:
    describe = resources.client("dynamodb").describe_table
    return [resources.own_name] if absent(lambda: describe(TableName=resources.own_name)) else []


def _remove_table(resources: Resources, name: str) -> None:
    resources.client("dynamodb").delete_table(TableName=name)


Find = Callable[[Resources], list[str]]
Remove = Callable[[Resources, str], object]
# What has the rehearsal's name: how it is found, and how one goes.
NAMED: Mapping[str, tuple[Find, Remove]] = {
    "rules": (_rules, _remove_rule),
    "queues": (_queues, lambda one, url: one.client("sqs").delete_queue(QueueUrl=url)),
    "alarms": (_alarms, lambda one, name: one.client("cloudwatch").delete_alarms(AlarmNames=[name])),
    "documents": (_documents, lambda one, name: one.client("ssm").delete_document(Name=name)),
    "state machines": (_machines, _remove_machine),
    "roles": (_roles, lambda one, name: one.client("iam").delete_role(RoleName=name)),
    "tables": (_tables, _remove_table),
}
# Deleted by an earlier removal, or just now.
_GOES = (
    "NotFound",
    "NoSuchEntity",
    "NonExistentQueue",
    "DoesNotExist",
    "Deleting",
    "InvalidDocument",
    "ResourceInUse",
)
_DENIED = ("AccessDenied", "Unauthorized", "AuthorizationError")


def named_leftovers(resources: Resources) -> list[str]:
    """Returns the names of what AWS still shows, and the kinds that it lets nobody look for."""
    found = {kind: _shown(resources, find) for kind, (find, _) in NAMED.items()}
    return [
        name
        for kind, names in found.items()
        for name in ([f"{kind} of {resources.own_name}"] if names is None else names)
    ]


def remove_named(resources: Resources) -> None:
    """Removes what has the rehearsal's name until AWS shows none of it; some of it is shown for a while after."""

    def none_is_shown() -> bool:
        shown = [(remove, name) for find, remove in NAMED.values() for name in _shown(resources, find) or ()]
        for remove, name in shown:
            unless(_GOES, lambda remove=remove, name=name: remove(resources, name))  # type: ignore[misc]
        return not shown

    resources.seconds_until("the end of rules, machines and table", none_is_shown)


def _shown(resources: Resources, find: Find) -> list[str] | None:
    """Returns the names that AWS shows, None where it denies to look."""
    found: list[str] | None = unless(_DENIED, lambda: find(resources))
    return found
