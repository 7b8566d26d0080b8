"""SNS: a subscriber gets a message when its own policy lets the topic send it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from localcloud.iam.access import Refused
from localcloud.iam.need import Need

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

SNS = "sns.amazonaws.com"
ACTIONS = {"sqs": ("sqs:SendMessage", "queue"), "lambda": ("lambda:InvokeFunction", "function")}


def install(cloud: OpenCloud) -> None:
    """Ask the policy of a queue or a function before a message goes there; a refused one is lost, as on AWS."""
    from moto.sns.models import Subscription

    original = Subscription.publish

    def publish(self: Any, *given: Any, **named: Any) -> None:
        if self.protocol in ACTIONS:
            action, kind = ACTIONS[self.protocol]
            try:
                cloud.access.check_service(SNS, self.topic_arn, Need(action, self.endpoint, kind))
            except Refused as error:
                log.error("a message of %s is lost: %s", self.topic_arn, error)
                return
        original(self, *given, **named)

    cloud.patch(Subscription, "publish", publish)
