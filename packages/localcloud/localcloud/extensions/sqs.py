"""SQS: a message may be hidden for 12 hours from when it was first received, however old it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """Count the 12 hours from the first receive (SQS API, ChangeMessageVisibility); moto counts from the sending."""
    from moto.sqs.models import SQSBackend

    original = SQSBackend.change_message_visibility

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
