"""SNS: a subscriber gets a message when its own policy lets the topic send it; else its dead-letter queue does.

A failure asked for as `sns:<endpoint>` is the end of SNS's retries for one delivery (of e-mail: 50 in 6 hours).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from localcloud.extensions.sqs import send_to_queue
from localcloud.iam.access import Refused
from localcloud.iam.service_needs import delivery_needs

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

SNS = "sns.amazonaws.com"
PROTOCOLS = ("sqs", "lambda")


def install(cloud: OpenCloud) -> None:
    """Ask the policy of a queue or a function before a message goes there; a refused one is lost, as on AWS.

    With a RedrivePolicy of the subscription it goes to that queue instead, where the queue lets the topic send.
    """
    from moto.sns.models import Subscription

    original = Subscription.publish

    def publish(self: Any, message: str, message_id: str, *given: Any, **named: Any) -> None:
        fault = cloud.faults.take(f"sns:{self.endpoint}")
        try:
            if self.protocol in PROTOCOLS:
                _check(cloud, self.topic_arn, self.protocol, self.endpoint)
        except Refused as error:
            _redrive(cloud, self, message, message_id, str(error), **named)
            return
        if fault is not None:
            _redrive(cloud, self, message, message_id, fault.message, **named)
            return
        original(self, message, message_id, *given, **named)

    cloud.patch(Subscription, "publish", publish)


def _check(cloud: OpenCloud, topic_arn: str, service: str, target_arn: str) -> None:
    """Raises Refused."""
    for need in delivery_needs(service, target_arn, cloud.access.account):
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
        _check(cloud, subscription.topic_arn, "sqs", queue_arn)
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
    send_to_queue(cloud, queue_arn, json.dumps(notification))
