"""The Step Functions execution that began a run, and whether anybody still undoes what it left. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from peaker.domain.reading import Unknown
from peaker.domain.runs.execution_input import Operation
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.runs.run import is_run_of, run_id

# The start of the execution in a run's id, to the second.
_STARTED = re.compile(r"-(\d{8}T\d{6})-[0-9a-f]{4}(?:-|$)")
_STAMP = "%Y%m%dT%H%M%S"
# The event of an execution's end comes within seconds, if it comes: it is delivered best effort.
EVENT_GRACE = timedelta(minutes=3)


@dataclass(frozen=True)
class RunExecution:
    """`status` is Step Functions' own: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED or PENDING_REDRIVE."""

    name: str
    status: str
    ended_at: datetime | None
    arn: str = ""

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def text(self) -> str:
        """`its execution ended: ABORTED at 22 Nov 09:14:03`"""
        at = f" at {self.ended_at:%d %b %H:%M:%S}" if self.ended_at else ""
        return f"its execution ended: {self.status}{at}"


def operation_of(lease: LeaseRow) -> Operation:
    """The workflow whose execution holds the lease."""
    return "scale_in" if lease.operation == "scale_in" else "scale_out"


def began(lease: LeaseRow, execution_name: str, started_at: datetime) -> bool:
    """Whether this execution's name and start make the id of the run that holds the lease."""
    first = run_id(operation_of(lease), lease.cluster, started_at.astimezone(UTC), execution_name)
    return is_run_of(lease.run_id, first)


def began_after(lease: LeaseRow, started_at: datetime) -> bool:
    """Whether the run began after an execution that started then: none that is older can have begun it."""
    found = _STARTED.search(lease.run_id)
    return found is not None and started_at.astimezone(UTC).strftime(_STAMP) < found.group(1)


def tells_its_start(lease: LeaseRow) -> bool:
    """Whether the run's id holds the start of its execution, as all have that an execution made."""
    return _STARTED.search(lease.run_id) is not None


@dataclass(frozen=True)
class LeftRun:
    """Whether the run of a held lease has to be taken up, and why, or why not."""

    take_up: bool
    reason: str


def judge_lease(
    lease: LeaseRow, execution: RunExecution | Unknown, rolled_back: Collection[str], now: datetime
) -> LeftRun:
    """A run is left when its execution ended without giving back the lease, and no roll_back is at work on it.

    `rolled_back` are the names of the executions that a running roll_back was given. Unknown means hold (I4): what
    Step Functions does not list may have started just now. The event of the end has EVENT_GRACE to come first.
    """
    if isinstance(execution, Unknown):
        return LeftRun(False, f"{lease.run_id}: {execution.why}")
    if execution.ended_at is None:
        return LeftRun(False, f"{lease.run_id}: its execution is {execution.status}")
    if execution.name in rolled_back:
        return LeftRun(False, f"{lease.run_id}: roll_back is at work on it")
    age = now - execution.ended_at
    if age < EVENT_GRACE:
        left = (EVENT_GRACE - age).total_seconds()
        return LeftRun(False, f"{lease.run_id}: {execution.text}; its event has {left:.0f} s more")
    return LeftRun(True, f"{lease.run_id}: {execution.text} without an undo")
