"""A run's execution: found among Step Functions' own, and what is said of a run whose execution ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.domain.reading import Unknown
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import LeaseRow, RunRow, StepRow
from peaker.domain.runs.run import run_id
from peaker.domain.runs.run_execution import RunExecution
from peaker_cli.runs.command import open_line
from peaker_cli.status.run_at_work import RunAtWork, run_status
from peaker_cli.status.run_lines import run_line

from tests.support.builders import orders
from tests.support.fakes import NOON

STARTED = NOON - timedelta(hours=3)
STOPPED = NOON - timedelta(hours=2)
FIRST = run_id("scale_out", "orders", STARTED, "manual-1")
ROW = RunRow(FIRST, "orders", "scale_out", STARTED, ExecutionInput(cluster="orders", reason="by hand"))
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:peaker-local-scale_out"
PREWARM = StepRow(
    "ReportPrewarm",
    STARTED,
    STOPPED,
    {"state": "running", "blocks_done": 5, "blocks_total": 20, "rate_mib_per_s": 2.0, "eta_seconds": 9000.0,
     "elapsed_seconds": 3000.0},
)  # fmt: skip


class StepFunctions:
    """ListExecutions, a page for each list."""

    def __init__(self, *pages: Sequence[Mapping[str, Any]]) -> None:
        self._pages, self.read = pages, 0

    def get_paginator(self, name: str) -> StepFunctions:
        assert name == "list_executions"
        return self

    def paginate(self, **given: Any) -> Any:
        assert given == {"stateMachineArn": MACHINE, "PaginationConfig": {"PageSize": 1000}}
        for page in self._pages:
            self.read += 1
            yield {"executions": page}


def execution(
    name: str, started: datetime, status: str = "RUNNING", stopped: datetime = STOPPED
) -> dict[str, Any]:
    ended = {} if status == "RUNNING" else {"stopDate": stopped}
    return {
        "name": name, "startDate": started + timedelta(milliseconds=417), "status": status,
        "executionArn": f"arn:{name}", **ended,
    }  # fmt: skip


def execution_of(stepfunctions: StepFunctions, held: LeaseRow) -> RunExecution | Unknown:
    return StepFunctionsExecutions(cast(Any, stepfunctions), MACHINE.removesuffix("scale_out")).that_began(
        held
    )


def lease(run: str) -> LeaseRow:
    return LeaseRow("orders", run, "scale_out", 7, NOON + timedelta(hours=60))


def at_work(found: RunExecution | Unknown, *more: StepRow) -> RunAtWork:
    return RunAtWork(lease(FIRST), ROW, (PREWARM, *more), found)


@pytest.mark.parametrize("run", [FIRST, f"{FIRST}-2"])
def test_the_execution_is_the_one_whose_name_and_start_make_the_run(run: str) -> None:
    others = [execution("newer", NOON), execution("of-the-same-second", STARTED)]
    found = execution_of(StepFunctions(others, [execution("manual-1", STARTED, "ABORTED")]), lease(run))
    assert found == RunExecution("manual-1", "ABORTED", STOPPED, "arn:manual-1")


def test_the_execution_is_found_behind_one_of_another_cluster_that_began_earlier_and_ended_later() -> None:
    """billing's, which took its hours, and one that runs since before it: ended executions are listed by their end."""
    long_ago = STARTED - timedelta(hours=1)
    others = [
        execution("billing-2", long_ago),
        execution("billing-1", long_ago, "SUCCEEDED", STOPPED + timedelta(seconds=1)),
    ]
    found = execution_of(StepFunctions(others, [execution("manual-1", STARTED, "ABORTED")]), lease(FIRST))
    assert found == RunExecution("manual-1", "ABORTED", STOPPED, "arn:manual-1")


def test_a_run_that_no_execution_began_is_not_looked_for_beyond_those_that_had_ended_before_it() -> None:
    before = STARTED - timedelta(seconds=1)
    older = [execution("older", before - timedelta(hours=1), "SUCCEEDED", before)]
    machines = StepFunctions([execution("newer", NOON)], older, older, older)
    assert isinstance(execution_of(machines, lease(FIRST)), Unknown)
    assert machines.read == 2
    assert isinstance(execution_of(StepFunctions(older), lease("by-hand")), Unknown)


def test_a_run_whose_execution_was_stopped_is_not_at_work() -> None:
    stopped = at_work(RunExecution("manual-1", "ABORTED", STOPPED))
    status = run_status(stopped, orders(), NOON)
    assert run_line(status, NOON) == (
        f"scale_out {FIRST}, its execution ended: ABORTED at 21 Nov 10:00:00, in ReportPrewarm; "
        "roll_back has not begun (docs/runbooks/abort-run.md)"
    )
    line = open_line(ROW, stopped.steps, orders(), stopped, NOON)
    assert line.state == "left"
    assert line.step == "ReportPrewarm, its execution ended: ABORTED at 21 Nov 10:00:00"


def test_nobody_is_told_when_the_prewarm_of_a_stopped_run_ends() -> None:
    status = run_status(at_work(RunExecution("manual-1", "TIMED_OUT", STOPPED)), orders(), NOON)
    assert not isinstance(status.progress, Unknown)
    prewarm = status.progress.prewarm
    assert prewarm is not None
    assert isinstance(prewarm.eta_seconds, Unknown)
    assert "TIMED_OUT" in prewarm.eta_seconds.why
    assert (prewarm.goes_on_at, prewarm.deadline) == (None, None)


def test_a_stopped_run_that_roll_back_undoes_is_at_work() -> None:
    undo = StepRow("UndoStoppedRun", STOPPED + timedelta(seconds=40))
    undone = at_work(RunExecution("manual-1", "ABORTED", STOPPED), undo)
    assert "roll_back undoes it, UndoStoppedRun" in run_line(run_status(undone, orders(), NOON), NOON)
    line = open_line(ROW, undone.steps, orders(), undone, NOON)
    assert line.state == "running"


def test_an_execution_that_cannot_be_read_changes_nothing_else() -> None:
    unknown = at_work(Unknown("states:ListExecutions: AccessDenied"))
    status = run_status(unknown, orders(), NOON)
    assert status.ended is None
    assert "ReportPrewarm for 3 h" in run_line(status, NOON)
    assert open_line(ROW, unknown.steps, orders(), unknown, NOON).state == "running"
