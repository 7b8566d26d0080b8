"""Rules: what they match, what their targets get, and what happens when a target fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import ROLE, Control, control, eventually, unique
from localcloud.extensions.events.eventbridge import Delivery, authorize
from localcloud.extensions.events.target_payload import target_payload

EVENT = {
    "version": "0",
    "id": "e-1",
    "detail-type": "CloudWatch Alarm State Change",
    "source": "aws.cloudwatch",
    "account": "123456789012",
    "time": "2026-11-21T08:00:00Z",
    "region": "us-east-1",
    "resources": ["arn:one", "arn:two"],
    "detail": {"alarmName": 'shortage "orders"', "state": {"value": "ALARM", "n": 3}, "gone": None},
}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=600) as opened:
        yield opened


def rule(aws: Control, pattern: Any, arn: str, **target: Any) -> str:
    name = unique("rule")
    aws.events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn, **target}])
    return name


def put(aws: Control, source: str, **detail: Any) -> None:
    entry = {"Source": source, "DetailType": "Test", "Detail": json.dumps(detail)}
    assert aws.events.put_events(Entries=[entry])["FailedEntryCount"] == 0


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ('{"less": "a < b", "unknown": "<other>"}', {"less": "a < b", "unknown": "<other>"}),
        ('{"escaped": "\\"<value>\\""}', {"escaped": '"ALARM"'}),
        (
            '{"rule": "<aws.events.rule-name>", "at": <aws.events.event.ingestion-time>}',
            {"rule": "r", "at": EVENT["time"]},
        ),
    ],
)
def test_an_input_template_is_filled(template: str, filled: Any) -> None:
    paths = {
        "name": "$.detail.alarmName",
        "value": "$.detail.state.value",
        "n": "$.detail.state.n",
        "list": "$.resources",
        "map": "$.detail.state",
        "missing": "$.detail.nowhere",
    }
    target = {"InputTransformer": {"InputPathsMap": paths, "InputTemplate": template}}
    assert json.loads(target_payload(target, EVENT, "arn:aws:events:us-east-1:123456789012:rule/r")) == filled


@pytest.mark.parametrize(
    ("target", "payload"),
    [
        ({"Input": '{"cluster": "orders"}'}, {"cluster": "orders"}),
        ({"InputPath": "$.detail.state"}, {"value": "ALARM", "n": 3}),
        ({"InputPath": "$.resources[1]"}, "arn:two"),
        ({}, EVENT),
    ],
)
def test_a_target_gets_a_constant_a_part_or_the_whole_event(target: dict[str, Any], payload: Any) -> None:
    assert json.loads(target_payload(target, EVENT, "arn")) == payload


def test_a_permission_that_asks_for_the_account_of_a_rule_lets_no_rule_in(aws: Control) -> None:
    """EventBridge names its rule (`aws:SourceArn`) and not its account when it invokes a function."""
    function = aws.function("def handler(event, context): pass\n")
    by_rule = Delivery("arn:aws:events:us-east-1:123456789012:rule/any", function, "{}")
    aws.allow_invocation(function, SourceAccount="123456789012")
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize(aws.cloud, by_rule)
    aws.allow_invocation(function)
    authorize(aws.cloud, by_rule)


def test_an_event_for_a_target_that_is_gone_goes_to_the_dead_letter_queue(aws: Control) -> None:
    url, arn = aws.queue()
    source = unique("dead")
    gone = "arn:aws:states:us-east-1:123456789012:stateMachine:gone"
    name = rule(
        aws, {"source": [source]}, gone, RoleArn=ROLE, DeadLetterConfig={"Arn": arn}, Input='{"a": 1}'
    )
    put(aws, source)
    answer = eventually(
        lambda: aws.sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]).get("Messages")
    )
    # The event, not the target's Input: whoever sends it again has to make that anew.
    event = json.loads(answer[0]["Body"])
    assert (event["source"], event["detail-type"], event["detail"]) == (source, "Test", {})
    told = {name: one["StringValue"] for name, one in answer[0]["MessageAttributes"].items()}
    assert (told["ERROR_CODE"], told["TARGET_ARN"], told["RETRY_ATTEMPTS"]) == ("NO_RESOURCE", gone, "0")
    assert told["RULE_ARN"].endswith(f":rule/{name}")
    assert "EXHAUSTED_RETRY_CONDITION" not in told


@pytest.mark.filterwarnings("ignore:Exception.InjectedFailure")
def test_a_failed_delivery_is_tried_again(aws: Control) -> None:
    source = unique("retry")
    machine = aws.machine({"Done": {"Type": "Succeed"}})
    rule(aws, {"source": [source]}, machine, RoleArn=ROLE)
    aws.cloud.faults.add("stepfunctions:StartExecution", "ThrottlingException", times=2)
    put(aws, source)
    eventually(lambda: aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"])
    assert not aws.cloud.faults.all()


@pytest.mark.filterwarnings("ignore:Exception.InjectedFailure")
def test_no_retries_means_none(aws: Control) -> None:
    source = unique("once")
    url, arn = aws.queue()
    machine = aws.machine({"Done": {"Type": "Succeed"}})
    policy = {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    rule(aws, {"source": [source]}, machine, RoleArn=ROLE, RetryPolicy=policy, DeadLetterConfig={"Arn": arn})
    aws.cloud.faults.add("stepfunctions:StartExecution", "ThrottlingException")
    put(aws, source)
    [letter] = eventually(
        lambda: aws.sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]).get("Messages")
    )
    told = {name: one["StringValue"] for name, one in letter["MessageAttributes"].items()}
    assert (told["ERROR_CODE"], told["EXHAUSTED_RETRY_CONDITION"]) == ("THROTTLING", "MaximumRetryAttempts")
    assert not aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"]


def test_delivery_can_be_made_to_happen_twice(aws: Control) -> None:
    source = unique("twice")
    machine = aws.machine({"Done": {"Type": "Succeed"}})
    name = rule(aws, {"source": [source]}, machine, RoleArn=ROLE)
    aws.cloud.faults.add(f"events:{name}", when="duplicate")
    put(aws, source)
    eventually(lambda: len(aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"]) == 2)


def test_a_rule_with_a_schedule_only_and_a_disabled_one_match_no_event(aws: Control) -> None:
    source = unique("quiet")
    machine = aws.machine({"Done": {"Type": "Succeed"}})
    scheduled = unique("scheduled")
    aws.events.put_rule(Name=scheduled, ScheduleExpression="rate(30 days)")
    aws.events.put_targets(Rule=scheduled, Targets=[{"Id": "1", "Arn": machine, "RoleArn": ROLE}])
    aws.events.disable_rule(Name=rule(aws, {"source": [source]}, machine, RoleArn=ROLE))
    url, arn = aws.queue()
    rule(aws, {"source": [source]}, arn)
    put(aws, source)
    eventually(lambda: aws.messages(url))
    assert not aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"]


def test_put_events_refuses_more_than_a_megabyte_and_entries_of_awss_own_sources(aws: Control) -> None:
    entry = {"Source": "mine", "DetailType": "Test", "Detail": "{}"}
    own = aws.events.put_events(Entries=[entry, {**entry, "Source": "aws.ec2"}])
    assert own["FailedEntryCount"] == 1
    assert "EventId" in own["Entries"][0]
    assert own["Entries"][1]["ErrorCode"] == "NotAuthorizedForSourceException"
    with pytest.raises(ClientError, match="Total size of the entries"):
        aws.events.put_events(Entries=[{**entry, "Detail": json.dumps({"text": "x" * 1024 * 1024})}])
