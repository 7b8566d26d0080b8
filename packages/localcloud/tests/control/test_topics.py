"""SNS: what a subscriber does not take goes to its subscription's dead-letter queue, which must let the topic in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_rig.control import OPEN_QUEUE, TRUST, Control, control, unique

MAIL = "dba@example.com"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        yield opened


def queue_for(aws: Control, policy: object) -> tuple[str, str]:
    """(URL, ARN) of a queue with this policy."""
    name = unique("letters")
    url = aws.sqs.create_queue(QueueName=name, Attributes={"Policy": json.dumps(policy)})["QueueUrl"]
    return url, f"arn:aws:sqs:us-east-1:123456789012:{name}"


def topic_of(aws: Control, dead_letters: str | None, protocol: str = "email", endpoint: str = MAIL) -> str:
    topic = str(aws.sns.create_topic(Name=unique("topic"))["TopicArn"])
    redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead_letters})} if dead_letters else {}
    aws.sns.subscribe(TopicArn=topic, Protocol=protocol, Endpoint=endpoint, Attributes=redrive)
    return topic


def bodies(aws: Control, url: str) -> list[dict[str, str]]:
    return [json.loads(one["Body"]) for one in aws.sqs.receive_message(QueueUrl=url).get("Messages", ())]


def lets_in(topic: str) -> dict[str, object]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "*",
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    return {"Version": TRUST["Version"], "Statement": [statement]}


def test_without_a_dead_letter_queue_it_is_gone(aws: Control, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_of(aws, None)
    aws.cloud.faults.add(f"sns:{MAIL}", "ServerError", "the mail server is away")
    aws.sns.publish(TopicArn=topic, Message="not taken")
    assert f"a message of {topic} is lost: the mail server is away" in caplog.text


def test_a_dead_letter_queue_takes_from_the_topic_that_its_policy_names_and_from_no_other(
    aws: Control,
) -> None:
    url, arn = queue_for(aws, {})
    topic, other = topic_of(aws, arn), topic_of(aws, arn)
    aws.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(lets_in(topic))})
    aws.cloud.faults.add(f"sns:{MAIL}", times=2)
    for one in (topic, other):
        aws.sns.publish(TopicArn=one, Message=one)
    assert [kept["Message"] for kept in bodies(aws, url)] == [topic]


def test_what_a_queue_refuses_is_a_dead_letter_too(aws: Control) -> None:
    url, arn = queue_for(aws, OPEN_QUEUE)
    _, closed = queue_for(aws, {})
    topic = topic_of(aws, arn, "sqs", closed)
    aws.sns.publish(TopicArn=topic, Message="refused")
    assert [kept["Message"] for kept in bodies(aws, url)] == ["refused"]
