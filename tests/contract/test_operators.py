"""The people whom a refusal by a limit pages: one suite for the cloud in memory and the adapter."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from peaker.adapters.sns_operators import SnsOperators
from peaker.ports.executions import Operators

from localcloud.server import LocalCloud
from peaker_contract.errors import AwsCallRejected, OperatorsUnreachable
from sim import others


@pytest.fixture(params=["hostile", "sns"])
def told(request: pytest.FixtureRequest) -> tuple[Operators, Callable[[], list[tuple[str, str]]]]:
    """The operators, and what they were sent: subject and text."""
    if request.param == "hostile":
        hostile = others.Operators()
        return hostile, lambda: hostile.mails
    return _by_sns(request.getfixturevalue("ledger_cloud"))


def _by_sns(cloud: LocalCloud) -> tuple[Operators, Callable[[], list[tuple[str, str]]]]:
    """A queue stands for the mailbox."""
    sns, sqs = cloud.client("sns"), cloud.client("sqs")
    topic = sns.create_topic(Name="operators")["TopicArn"]
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    url = sqs.create_queue(QueueName="mailbox", Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def mails() -> list[tuple[str, str]]:
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        bodies = [json.loads(one["Body"]) for one in found]
        return [(one["Subject"], one["Message"]) for one in bodies]

    return SnsOperators(sns, topic), mails


def test_the_operators_get_subject_and_text(
    told: tuple[Operators, Callable[[], list[tuple[str, str]]]],
) -> None:
    operators, mails = told
    operators.tell("Peaker prod: scale_out is refused by a limit", "the plan\nin lines, with an ü")
    assert mails() == [("Peaker prod: scale_out is refused by a limit", "the plan\nin lines, with an ü")]


def test_where_no_address_is_set_nobody_can_be_told(ledger_cloud: LocalCloud) -> None:
    with pytest.raises(OperatorsUnreachable, match="alarm_email is not set"):
        SnsOperators(ledger_cloud.client("sns"), "").tell("subject", "text")


def test_a_topic_that_is_gone_is_told_with_what_aws_said(ledger_cloud: LocalCloud) -> None:
    gone = "arn:aws:sns:us-east-1:123456789012:gone"
    with pytest.raises(AwsCallRejected, match="sns:Publish: NotFound"):
        SnsOperators(ledger_cloud.client("sns"), gone).tell("subject", "text")
