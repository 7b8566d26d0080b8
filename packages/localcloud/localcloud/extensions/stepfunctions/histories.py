"""What an execution has done, in pages, as GetExecutionHistory answers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from localcloud.extensions.injected_failures import InjectedFailure

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

# Step Functions API reference, GetExecutionHistory, maxResults; 0 stands for the default.
PAGE, LONGEST_PAGE = 100, 1000


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
            if not token.isdecimal():
                raise InjectedFailure("InvalidToken", f"Invalid Token: '{token}'")
            after = int(token)
        backwards = bool(self._get_param("reverseOrder"))
        page, more = _page(events, size, after, backwards)
        answer: dict[str, Any] = {"events": [_as_sent(event) for event in page]}
        if more:
            answer["nextToken"] = str(page[-1]["id"])
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


def _as_sent(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "timestamp": datetime.fromisoformat(event["timestamp"]).timestamp()}
