"""The product as synthesised, deployed: who is let through; what no role of it may do, test_refused_calls.py tries."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import OPEN_QUEUE, eventually, unique
from cloud_rig.resources import ResourceCloud
from environments.schema import load_environment
from localcloud.extensions.events.eventbridge import Delivery, authorize, authorize_dead_letter
from stacks.naming import Names

ACCOUNT = "123456789012"
NAMES = Names(load_environment("local"))
OPERATOR_TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:peaker-local-operator-alarms"
WORKFLOWS = ("prewarm", "add_replica", "remove_replica", "scale_out", "scale_in", "roll_back")


def told(aws: ResourceCloud, url: str) -> set[str]:
    """The alarms of which the queue has a message; others may go off meanwhile."""
    received = aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return {json.loads(json.loads(one["Body"])["Message"])["AlarmName"] for one in received}


def test_an_alarm_pages_the_operators(aws: ResourceCloud) -> None:
    queue = unique("pager")
    url = aws.sqs.create_queue(QueueName=queue, Attributes={"Policy": json.dumps(OPEN_QUEUE)})["QueueUrl"]
    endpoint = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
    aws.sns.subscribe(TopicArn=OPERATOR_TOPIC, Protocol="sqs", Endpoint=endpoint)
    name = "peaker-local-scale_out-workflow-failed"
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a run failed")
    eventually(lambda: name in told(aws, url))


def test_every_alarm_may_reach_the_operators_and_nobody_elses_alarm_does(aws: ResourceCloud) -> None:
    alarms = aws.cloudwatch.describe_alarms()["MetricAlarms"]
    telling = [alarm for alarm in alarms if alarm["AlarmActions"]]
    assert len(telling) > len(WORKFLOWS)
    cloudwatch = "cloudwatch.amazonaws.com"
    for alarm in telling:
        for topic in alarm["AlarmActions"]:
            authorize(aws.cloud, Delivery(alarm["AlarmArn"], topic, "", service=cloudwatch))
    foreign = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:another-product"
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize(aws.cloud, Delivery(foreign, OPERATOR_TOPIC, "", service=cloudwatch))


def test_a_page_that_no_mail_server_takes_lies_in_the_topics_queue(aws: ResourceCloud) -> None:
    """Six hours of a mail server that is away; the alarm on the queue tells whoever gets mail again."""
    aws.cloud.faults.add("sns:dba@example.com", "ServerError", "the mail server is away")
    name = "peaker-local-scale_in-workflow-failed"
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a run failed")
    url = aws.sqs.get_queue_url(QueueName="peaker-local-operator-alarms-undelivered")["QueueUrl"]
    eventually(lambda: name in told(aws, url))


def test_every_rule_may_reach_its_target_and_its_dead_letters(aws: ResourceCloud) -> None:
    rules = aws.events.list_rules()["Rules"]
    assert len(rules) >= 6
    for rule in rules:
        for target in aws.events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
            delivery = Delivery(rule["Arn"], target["Arn"], "{}", target)
            authorize(aws.cloud, delivery)
            authorize_dead_letter(aws.cloud, delivery, target["DeadLetterConfig"]["Arn"])


def test_a_rule_reaches_no_other_rules_dead_letters(aws: ResourceCloud) -> None:
    first, second = aws.events.list_rules()["Rules"][:2]
    [target] = aws.events.list_targets_by_rule(Rule=first["Name"])["Targets"]
    delivery = Delivery(second["Arn"], target["Arn"], "{}", target)
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize_dead_letter(aws.cloud, delivery, target["DeadLetterConfig"]["Arn"])
