"""SNS: a subscriber gets a message when its own policy lets the topic send it; else its dead-letter queue does.

A failure asked for as `sns:<endpoint>` is the end of SNS's retries for one delivery (of e-mail: 50 in 6 hours).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from localcloud.iam.access import Refused
from localcloud.iam.need import Need
from localcloud.iam.service_needs import key_of_message

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

SNS = "sns.amazonaws.com"
ACTIONS = {"sqs": ("sqs:SendMessage", "queue"), "lambda": ("lambda:InvokeFunction", "function")}


def install(cloud: OpenCloud) -> None:
    """Ask the policy of a queue or a function before a message goes there; a refused one is lost, as on AWS.

    With a RedrivePolicy of the subscription it goes to that queue instead, where the queue lets the topic send.
    """
    from moto.sns.models import Subscription

    original = Subscription.publish

    def publish(self: Any, message: str, message_id: str, *given: Any, **named: Any) -> None:
        fault = cloud.faults.take(f"sns:{self.endpoint}")
        try:
            if self.protocol in ACTIONS:
                action, kind = ACTIONS[self.protocol]
                _check(cloud, self.topic_arn, action, self.endpoint, kind)
        except Refused as error:
            _redrive(cloud, self, message, message_id, str(error), **named)
            return
        if fault is not None:
            _redrive(cloud, self, message, message_id, fault.message, **named)
            return
        original(self, message, message_id, *given, **named)

    cloud.patch(Subscription, "publish", publish)


def _check(cloud: OpenCloud, topic_arn: str, action: str, resource: str, kind: str) -> None:
    """Raises Refused."""
    account = cloud.access.account
    needs = [Need(action, resource, kind)]
    if kind == "queue":
        needs += key_of_message(account.key_of_queue(resource), "sqs", account)
    for need in needs:
        cloud.access.check_service(SNS, topic_arn, need)


def _redrive(
    cloud: OpenCloud,
    subscription: Any,
    message: str,
    message_id: str,
    why: str,
    subject: str | None = None,
    **_: Any,
) -> None:
    """The body is the notification; AWS's guide promises no attribute that says why, so there is none."""
    queue_arn = json.loads(subscription.attributes.get("RedrivePolicy") or "{}").get("deadLetterTargetArn")
    if not queue_arn:
        log.error("a message of %s is lost: %s", subscription.topic_arn, why)
        return
    try:
        _check(cloud, subscription.topic_arn, "sqs:SendMessage", queue_arn, "queue")
    except Refused as error:
        log.error(
            "a message of %s is lost, its dead-letter queue refuses it: %s", subscription.topic_arn, error
        )
        return
    notification = {
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": subscription.topic_arn,
        **({"Subject": subject} if subject else {}),
        "Message": message,
        "Timestamp": cloud.clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    sqs = cloud.client("sqs")
    url = sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[-1])["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(notification))
