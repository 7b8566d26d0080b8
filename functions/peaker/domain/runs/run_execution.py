"""The Step Functions execution that began a run. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from peaker.domain.runs.execution_input import Operation
from peaker.domain.runs.ledger import LeaseRow, RunRow
from peaker.domain.runs.run import is_run_of, run_id

# The start of the execution in a run's id, to the second.
_STARTED = re.compile(r"-(\d{8}T\d{6})-[a-z2-7]{10}(?:-|$)")
_STAMP = "%Y%m%dT%H%M%S"
# The event of an execution's end comes within seconds, if it comes: it is delivered best effort. And the longest
# function of a stopped execution, StartPrewarm, may run for three minutes more.
EVENT_GRACE = timedelta(seconds=195)


# A begun run is known by its row, or by the lease that it holds.
BegunRun = RunRow | LeaseRow


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


def operation_of(run: BegunRun) -> Operation:
    """The workflow whose execution holds the run."""
    return "scale_in" if run.operation == "scale_in" else "scale_out"


def began(run: BegunRun, execution_name: str, started_at: datetime) -> bool:
    """Tells whether this execution's name and start make the id of the run that holds the run."""
    first = run_id(operation_of(run), run.cluster, started_at.astimezone(UTC), execution_name)
    return is_run_of(run.run_id, first)


def began_after(run: BegunRun, moment: datetime) -> bool:
    """Tells whether the run began after that moment: no execution that had ended by then can have begun it."""
    found = _STARTED.search(run.run_id)
    return found is not None and moment.astimezone(UTC).strftime(_STAMP) < found.group(1)


def tells_its_start(run: BegunRun) -> bool:
    """Tells whether the run's id holds the start of its execution, as all have that an execution made."""
    return _STARTED.search(run.run_id) is not None
