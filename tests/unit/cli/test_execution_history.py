"""An execution that is followed: each look tells what is new, whatever its pages are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from peaker_cli.control_plane import ExecutionHistory

BEGAN = datetime(2026, 11, 21, 10, tzinfo=UTC)
RUN, MEMBER = "arn:execution:run", "arn:execution:member"


class Executions:
    """The histories of executions, paged newest first, and how many events were read."""

    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.read_events = 0

    def does(self, arn: str, kind: str, **details: Any) -> None:
        events = self.events.setdefault(arn, [])
        number = len(events) + 1
        events.append({"id": number, "type": kind, "timestamp": BEGAN + timedelta(seconds=number), **details})

    def enters(self, arn: str, *states: str) -> None:
        for state in states:
            self.does(arn, "TaskStateEntered", stateEnteredEventDetails={"name": state})

    def get_paginator(self, operation: str) -> Executions:
        assert operation == "get_execution_history"
        return self

    def paginate(self, *, executionArn: str, reverseOrder: bool, maxResults: int) -> Iterator[Any]:
        assert reverseOrder
        newest_first = self.events[executionArn][::-1]
        for first in range(0, len(newest_first), maxResults):
            page = newest_first[first : first + maxResults]
            self.read_events += len(page)
            yield {"events": page}


@pytest.fixture
def executions() -> Executions:
    return Executions()


def test_a_look_tells_what_was_entered_since_the_last_one(executions: Executions) -> None:
    executions.enters(RUN, "AcquireLease", "PlanScaleOut")
    history = ExecutionHistory(RUN)
    assert list(history.look(executions)) == ["AcquireLease", "PlanScaleOut"]
    assert list(history.look(executions)) == []
    executions.enters(RUN, "NextMembers")
    assert list(history.look(executions)) == ["NextMembers"]
    assert [state for _, state in history.states] == ["AcquireLease", "PlanScaleOut", "NextMembers"]
    assert history.states[0][0] == BEGAN + timedelta(seconds=1)


@pytest.mark.parametrize("entered", [99, 100, 101, 999, 1000, 1001, 2500])
def test_none_is_lost_between_pages(executions: Executions, entered: int) -> None:
    history = ExecutionHistory(RUN)
    executions.enters(RUN, "AcquireLease")
    seen = list(history.look(executions))
    executions.enters(RUN, *(f"Step{number}" for number in range(entered)))
    seen += history.look(executions)
    assert seen == ["AcquireLease", *(f"Step{number}" for number in range(entered))]


def test_a_long_history_is_not_read_again_and_again(executions: Executions) -> None:
    executions.enters(RUN, *(f"Step{number}" for number in range(2500)))
    history = ExecutionHistory(RUN)
    list(history.look(executions))
    before = executions.read_events
    list(history.look(executions))
    assert executions.read_events - before <= 100


def test_an_execution_that_has_ended_is_not_asked_again(executions: Executions) -> None:
    executions.enters(RUN, "AcquireLease")
    executions.does(RUN, "ExecutionAborted")
    history = ExecutionHistory(RUN)
    assert list(history.look(executions)) == ["AcquireLease"]
    before = executions.read_events
    assert list(history.look(executions)) == []
    assert executions.read_events == before


def test_members_are_followed_too(executions: Executions) -> None:
    executions.enters(RUN, "AddReplica")
    submitted = {"resource": "startExecution.sync:2", "output": json.dumps({"ExecutionArn": MEMBER})}
    executions.does(RUN, "TaskSubmitted", taskSubmittedEventDetails=submitted)
    executions.enters(MEMBER, "LaunchReplica")
    history = ExecutionHistory(RUN)
    assert list(history.look(executions)) == ["AddReplica", "LaunchReplica"]
    executions.enters(MEMBER, "Prewarm")
    assert list(history.look(executions)) == ["Prewarm"]
