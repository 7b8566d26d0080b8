"""What an execution has done, in pages, as GetExecutionHistory answers it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from localcloud.extensions.injected_failures import InjectedFailure

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# Step Functions API reference, GetExecutionHistory, maxResults; 0 stands for the default.
PAGE, LONGEST_PAGE = 100, 1000
_DATA = ("input", "inputDetails", "output", "outputDetails")


def install(cloud: OpenCloud) -> None:
    """Answer a page; moto answers the whole, whatever was asked for, and looks each member up under ten names."""
    from moto.stepfunctions.responses import StepFunctionResponse

    def get_execution_history(self: Any) -> str:
        found = self.stepfunction_backend.get_execution_history(self._get_param("executionArn"))
        # A copy: the execution may go on.
        events = list(found["events"])
        size = self._get_param("maxResults") or PAGE
        if size > LONGEST_PAGE:
            raise InjectedFailure(
                "ValidationException",
                f"1 validation error detected: Value '{size}' at 'maxResults' failed to satisfy constraint: Member "
                f"must have value less than or equal to {LONGEST_PAGE}",
            )
        after = None
        if token := self._get_param("nextToken"):
            after = _event_id(token)
            if after is None:
                raise InjectedFailure("InvalidToken", f"Invalid Token: '{token}'")
        backwards = bool(self._get_param("reverseOrder"))
        page, more = _page(events, size, after, backwards)
        with_data = self._get_param("includeExecutionData") is not False
        answer: dict[str, Any] = {"events": [_as_sent(event, with_data) for event in page]}
        if more:
            answer["nextToken"] = _token(page[-1]["id"])
        return json.dumps(answer)

    cloud.patch(StepFunctionResponse, "get_execution_history", get_execution_history)


def _page(
    events: Sequence[dict[str, Any]], size: int, after: int | None, backwards: bool
) -> tuple[list[dict[str, Any]], bool]:
    """So many events behind the one with that id, in the order asked for, and whether there are more."""
    ordered = sorted(events, key=lambda event: int(event["id"]), reverse=backwards)
    if after is not None:
        ordered = [one for one in ordered if (one["id"] < after if backwards else one["id"] > after)]
    return ordered[:size], len(ordered) > size


def _as_sent(event: dict[str, Any], with_data: bool) -> dict[str, Any]:
    sent = {**event, "timestamp": datetime.fromisoformat(event["timestamp"]).timestamp()}
    if with_data:
        return sent
    return {
        name: {key: one for key, one in value.items() if key not in _DATA}
        if isinstance(value, dict)
        else value
        for name, value in sent.items()
    }


def _token(event_id: int) -> str:
    return base64.b64encode(f"after {event_id}".encode()).decode()


def _event_id(token: str) -> int | None:
    try:
        word, _, number = base64.b64decode(token, validate=True).decode().partition(" ")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return int(number) if word == "after" and number.isdecimal() else None
