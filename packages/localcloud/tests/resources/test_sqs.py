"""What becomes of messages with time: hidden, shown again, and gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.server import LocalCloud

HALF_A_DAY = timedelta(hours=12, minutes=1)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    with LocalCloud(None, tmp_path) as opened:
        yield opened


def received(sqs: Any, url: str) -> dict[str, Any]:
    [message] = sqs.receive_message(
        QueueUrl=url, VisibilityTimeout=43_200, MessageSystemAttributeNames=["SentTimestamp"]
    )["Messages"]
    return dict(message)


def test_an_old_message_may_be_shown_again_until_12_hours_after_its_first_receive(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="letters")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    cloud.clock.set(now=cloud.clock.now() + HALF_A_DAY)
    first = received(sqs, url)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    again = received(sqs, url)
    assert again["Attributes"] == first["Attributes"], "when it was sent is still told"

    cloud.clock.set(now=cloud.clock.now() + HALF_A_DAY)
    with pytest.raises(ClientError, match="beyond the limit"):
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=60
        )


def test_a_message_that_is_too_old_is_gone_and_hides_none_behind_it(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="letters")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="old")
    cloud.clock.set(now=cloud.clock.now() + timedelta(days=5))
    sqs.send_message(QueueUrl=url, MessageBody="new")
    assert [one["Body"] for one in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]] == [
        "new"
    ]
