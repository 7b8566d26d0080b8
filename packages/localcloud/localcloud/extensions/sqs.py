"""SQS: what is older than its queue keeps is gone; a message may be hidden for 12 hours from its first receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def send_to_queue(cloud: OpenCloud, queue_arn: str, body: str, **more: Any) -> None:
    """Send a message as AWS's services do, which have asked before whether they may."""
    sqs = cloud.client("sqs")
    url = sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[-1])["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=body, **more)


def install(cloud: OpenCloud) -> None:
    """Mend two things of moto.

    It counts the 12 hours from the sending (SQS API, ChangeMessageVisibility: from the first receive). And it stops at
    the first message that is too old, so that nothing behind it is ever received.
    """
    from moto.sqs.models import SQSBackend

    original, receive = SQSBackend.change_message_visibility, SQSBackend.receive_message

    def receive_message(self: Any, queue_name: str, *given: Any, **named: Any) -> Any:
        queue = self.get_queue(queue_name)
        for message in list(queue._messages):
            if not self.is_message_valid_based_on_retention_period(queue_name, message):
                queue._messages.remove(message)
        return receive(self, queue_name, *given, **named)

    def change_message_visibility(
        self: Any, queue_name: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        messages = self.get_queue(queue_name)._messages
        held = [message for message in messages if message.had_receipt_handle(receipt_handle)]
        sent = [message.sent_timestamp for message in held]
        for message in held:
            message.sent_timestamp = message.approximate_first_receive_timestamp
        try:
            original(self, queue_name, receipt_handle, visibility_timeout)
        finally:
            for message, at in zip(held, sent, strict=True):
                message.sent_timestamp = at

    cloud.patch(SQSBackend, "change_message_visibility", change_message_visibility)
    cloud.patch(SQSBackend, "receive_message", receive_message)
