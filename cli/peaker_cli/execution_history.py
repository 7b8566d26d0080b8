"""An execution's history is read step by step, each look reading only what is new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# In what StartExecution answered, which Step Functions keeps as text.
_EXECUTION_ARN = re.compile(r'"ExecutionArn":\s*"([^"]+)"')
_LAST = {"ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"}
# Of 25,000 events at most; a page has 1,000 at most (Step Functions quotas; API reference, GetExecutionHistory).
_FIRST_PAGE, _LATER_PAGE = 1000, 100


@dataclass
class ExecutionHistory:
    """`states` are those that it has entered: (when, name). `children` are the executions that it waits for."""

    arn: str
    states: list[tuple[datetime, str]] = field(default_factory=list)
    children: list[ExecutionHistory] = field(default_factory=list)
    newest_event: int = 0
    ended: bool = False

    def look(self, stepfunctions: Any) -> Iterator[str]:
        """The names of what it has entered since the last look, then of what its children have."""
        known = len(self.states)
        self.read(stepfunctions)
        yield from (name for _, name in self.states[known:])
        for child in self.children:
            yield from child.look(stepfunctions)

    def read(self, stepfunctions: Any) -> None:
        """Look at this execution alone. Raises botocore's errors; then the next look finds what this one has not."""
        for event in [] if self.ended else self._new_events(stepfunctions):
            if details := event.get("stateEnteredEventDetails"):
                self.states.append((event["timestamp"].astimezone(UTC), str(details["name"])))
            submitted = event.get("taskSubmittedEventDetails", {})
            if "startExecution.sync" in str(submitted.get("resource", "")):
                found = _EXECUTION_ARN.findall(str(submitted.get("output", "")))
                self.children += [ExecutionHistory(arn) for arn in found]
            self.newest_event = event["id"]
            self.ended = event["type"] in _LAST

    def _new_events(self, stepfunctions: Any) -> list[Any]:
        pages = stepfunctions.get_paginator("get_execution_history").paginate(
            executionArn=self.arn,
            reverseOrder=True,
            maxResults=_LATER_PAGE if self.newest_event else _FIRST_PAGE,
        )
        found: list[Any] = []
        for page in pages:
            for event in page["events"]:
                if event["id"] <= self.newest_event:
                    return found[::-1]
                found.append(event)
        return found[::-1]
