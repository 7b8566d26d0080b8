"""An execution is followed to an end that AWS shows late and in parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker_cli import control_plane
from peaker_cli.control_plane import ControlPlane, ExecutionHistory
from peaker_cli.failures import ControlPlaneError

ARN = "arn:aws:states:us-east-1:123456789012:execution:peaker-prod-scale_out:manual-1"
RUNNING = {"status": "RUNNING"}
WITHOUT_OUTPUT = {"status": "SUCCEEDED"}
REFUSED = {"status": "SUCCEEDED", "output": json.dumps({"outcome": "refused", "error": "NoDonor"})}
UNKNOWN = "ExecutionDoesNotExist"


class SecondsOfPolls:
    """Time as the polls take it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Shown:
    """Step Functions, which shows these one after the other, the last one for ever."""

    def __init__(self, *looks: dict[str, Any] | str, history: Sequence[str] = ()) -> None:
        self._looks, self._history = list(looks), list(history)
        self.looks = 0

    def describe_execution(self, **_: Any) -> dict[str, Any]:
        self.looks += 1
        shown = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(shown, str):
            raise _error(shown)
        return shown

    def get_paginator(self, _: str) -> Shown:
        return self

    def paginate(self, **_: Any) -> Iterator[dict[str, Any]]:
        if self._history:
            raise _error(self._history.pop())
        yield {"events": []}


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ARN}}, "DescribeExecution")


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> SecondsOfPolls:
    polls = SecondsOfPolls()
    monkeypatch.setattr(control_plane, "time", polls)
    return polls


def plane(shown: Shown) -> ControlPlane:
    made = ControlPlane("prod", "us-east-1")
    object.__setattr__(made, "client", lambda _: shown)
    return made


def test_a_success_without_its_output_is_not_the_end_yet(time: SecondsOfPolls) -> None:
    ended = plane(Shown(RUNNING, WITHOUT_OUTPUT, WITHOUT_OUTPUT, REFUSED)).wait(ARN, 180)
    assert ended.is_refused
    assert time.seconds == 3


@pytest.mark.parametrize("output", ["null", '""', "{}"])
def test_an_output_that_says_nothing_is_one(time: SecondsOfPolls, output: str) -> None:
    ended = plane(Shown({"status": "SUCCEEDED", "output": output})).wait(ARN, 180)
    assert ended.output == json.loads(output)


def test_an_execution_that_does_not_show_just_after_its_start_is_looked_for_again(
    time: SecondsOfPolls,
) -> None:
    assert plane(Shown(UNKNOWN, UNKNOWN, RUNNING, UNKNOWN, REFUSED)).wait(ARN, 180).is_refused


def test_a_history_that_does_not_show_yet_is_looked_for_again(time: SecondsOfPolls) -> None:
    shown = Shown(REFUSED, history=[UNKNOWN])
    assert plane(shown).wait(ARN, 180, progress=lambda _: None).is_refused
    assert shown.looks == 2


def test_a_failure_has_no_output_to_wait_for(time: SecondsOfPolls) -> None:
    failed = {"status": "FAILED", "error": "UnknownCluster", "cause": "no orders"}
    assert plane(Shown(failed)).wait(ARN, 180).failure_text == "UnknownCluster: no orders"
    assert time.seconds == 0


@pytest.mark.parametrize(
    ("looks", "error", "said", "after_seconds"),
    [
        (
            [*[RUNNING] * 100, WITHOUT_OUTPUT],
            ControlPlaneError,
            "Step Functions does not show its output",
            130,
        ),
        ([UNKNOWN], ControlPlaneError, f"Step Functions knows no {ARN}", 30),
        ([RUNNING], ControlPlaneError, "still runs after 180 s", 180),
        (["AccessDeniedException"], ClientError, "AccessDenied", 0),
    ],
)
def test_what_does_not_come_ends_the_wait_in_words(
    time: SecondsOfPolls, looks: list[Any], error: type[Exception], said: str, after_seconds: float
) -> None:
    with pytest.raises(error, match=said):
        plane(Shown(*looks)).wait(ARN, 180)
    assert after_seconds <= time.seconds <= after_seconds + 2


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


@pytest.mark.parametrize("entered", [99, 100, 1001])
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
