"""EventBridge's default bus (PutEvents), on which Peaker's events are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated
from peaker.domain.report.event import Event
from peaker_contract.errors import AwsCallRejected, PeakerError
from peaker_contract.names import EVENT_SOURCE

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

# An entry fails alone, in an answer of status 200 that botocore does not try again.
_TRIES = 2
_WORTH_ANOTHER = frozenset({"InternalFailure", "ThrottlingException"})


class EventBridgeEvents:
    """Port Events. `lost` is told of an event that the bus did not take."""

    def __init__(self, client: EventBridgeClient, lost: Callable[[str], None]) -> None:
        self._client = client
        self._lost = lost

    def put(self, event: Event) -> None:
        try:
            with translated("events:PutEvents"):
                self._put(event)
        except PeakerError as error:
            self._lost(f"the event {event.id} is lost: {error}")

    def _put(self, event: Event) -> None:
        """Raises AwsCallRejected where the bus refuses the entry."""
        refused = ""
        for _ in range(_TRIES):
            answer = self._client.put_events(
                Entries=[
                    {
                        "Source": EVENT_SOURCE,
                        "DetailType": event.detail_type,
                        "Time": event.at,
                        "Detail": event.model_dump_json(),
                    }
                ]
            )
            [entry] = answer["Entries"]
            code = entry.get("ErrorCode")
            if code is None:
                return
            refused = f"events:PutEvents: {code}: {entry.get('ErrorMessage', '')}"
            if code not in _WORTH_ANOTHER:
                break
        raise AwsCallRejected(refused)
