"""The status document from what was gathered: figures, roles, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from peaker.adapters.step_functions_executions import StepFunctionsExecutions
from peaker.domain.instants import to_iso
from peaker.domain.prices.price_table import US_EAST_1
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import LeaseRow, RunRow, StepRow
from peaker.domain.runs.run import run_id
from peaker.domain.runs.run_execution import RunExecution
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker_cli.runs.command import open_line
from peaker_cli.status.document import Alarm, Facts, as_document, cluster_status
from peaker_cli.status.gather import owner_of
from peaker_cli.status.rendering import render_overview, render_status, status_line
from peaker_cli.status.run_at_work import RunAtWork, run_line, run_status
from rich.console import Console

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, fleet_with, orders, replica

PEAK = "i-000000000000c0001"
AT_WORK = RunExecution("manual-1", "RUNNING", None)
REPORT: dict[str, Any] = {
    "at": to_iso(NOON - timedelta(minutes=4)),
    "action": "scale_out",
    "outcome": "act",
    "reason": "2 replicas are needed by p95 of the load in 70 min, 180",
    "required": 2,
    "capacity_per_replica": 80.0,
    "capacity_basis": "the volumes reached 80% of their IOPS at the knee",
    "observing": False,
    "observation": "accepted",
    "standing": "normal",
    "score": "412 forecasts scored",
    "numbers": {"forecast_upper": 180.0, "lead_time_p90_seconds": 4200.0},
}


def gathered(**changes: Any) -> Facts:
    fleet = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=ReplicaState.BUILDING,
                                            health=TargetHealth(TargetState.ABSENT)))  # fmt: skip
    facts: dict[str, Any] = {
        "environment": "local",
        "settings": orders(),
        "now": NOON,
        "fleet": fleet,
        "read_shares": {BASE: 1.0},
        "lags": {BASE: Known(0.5, NOON), PEAK: Unknown("no check has heard of it")},
        "at_work": None,
        "report": REPORT,
        "load": Known(95.0, NOON),
        "alarms": (),
    }
    return Facts(**{**facts, **changes})


def shown(facts: Facts) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        console.print(render_status(cluster_status(facts)))
        console.print(render_overview([cluster_status(facts)]))
    return capture.get() + status_line(cluster_status(facts))


def test_replicas_have_role_state_lag_and_share() -> None:
    base, peak = as_document(cluster_status(gathered()))["replicas"]
    assert (base["role"], base["state"], base["serves"]) == ("base", "running", True)
    assert (base["lag_seconds"]["value"], base["share_of_reads"]["value"]) == (0.5, 1.0)
    assert (peak["role"], peak["state"], peak["endpoint"]) == ("peak", "building", "absent")
    assert peak["lag_seconds"] == {"unknown": "no check has heard of it"}
    assert peak["share_of_reads"]["value"] == 0.0


def test_the_forecast_stands_against_the_capacity_that_the_check_found() -> None:
    capacity = cluster_status(gathered()).capacity
    assert capacity.capacity == Known(80.0, NOON)
    assert (capacity.forecast, capacity.required) == (
        Known(180.0, NOON - timedelta(minutes=4)),
        Known(2.0, NOON - timedelta(minutes=4)),
    )


def test_a_replica_that_gets_few_reads_is_told_and_counts_as_what_comes() -> None:
    fleet = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=ReplicaState.IN_SERVICE))
    report = {**REPORT, "read_shares": {BASE: 1.0, PEAK: 0.34}, "few_reads": [PEAK]}
    facts = gathered(fleet=fleet, report=report)
    assert f"{PEAK} takes 34% of a peer's reads, and counts as that" in shown(facts)
    capacity = cluster_status(facts).capacity
    assert (capacity.serving, capacity.capacity) == (Known(2.0, NOON), Known(1.34 * 80.0, NOON))
    seen_once = gathered(fleet=fleet, report={**report, "few_reads": []})
    assert f"{PEAK} takes 34% of a peer's reads\n" in "\n".join(
        line.strip("│ ") for line in shown(seen_once).splitlines()
    )
    assert cluster_status(seen_once).capacity.capacity == Known(160.0, NOON)


def test_a_share_of_a_peer_that_nobody_compared_is_unknown_with_its_reason() -> None:
    why = {BASE: "there is no other to compare it with"}
    base, peak = as_document(cluster_status(gathered(report={**REPORT, "read_shares_unknown": why})))[
        "replicas"
    ]
    assert base["share_of_a_peer"] == {"unknown": "there is no other to compare it with"}
    assert peak["share_of_a_peer"] == {"unknown": "the newest check did not compare it"}


def test_nothing_that_is_unknown_becomes_a_number() -> None:
    why = Unknown("ec2:DescribeInstances: AccessDenied")
    facts = gathered(fleet=why, read_shares=why, lags={}, at_work=why, report=None, load=why, alarms=why)
    status = cluster_status(facts)
    assert {status.replicas, status.run, status.alarms, status.capacity.capacity, status.capacity.load} == {
        why
    }
    assert isinstance(status.decision, Unknown)
    assert isinstance(status.capacity.required, Unknown)
    assert "AccessDenied" in shown(facts)
    assert "forecast_load has not run yet" in shown(facts)


class TestAdditionThatWaits:
    def test_it_says_for_whose_lease_and_since_when(self) -> None:
        since = NOON - timedelta(minutes=9)
        alarm = Alarm("peaker-local-orders-replica-shortage", since, "1.0 > 0")
        facts = gathered(at_work=removal(NOON - timedelta(minutes=10)), alarms=(alarm,))
        assert "an addition, since 21 Nov 11:51 UTC, for the lease of scale_in scale-in-orders-1" in shown(
            facts
        )
        of_check = cluster_status(gathered(at_work=removal(NOON - timedelta(minutes=10)))).addition
        assert of_check is not None
        assert of_check.since == NOON - timedelta(minutes=4)

    def test_a_run_that_began_after_the_check_may_be_the_addition(self) -> None:
        assert cluster_status(gathered(at_work=removal(NOON - timedelta(minutes=1)))).addition is None

    def test_nothing_waits_where_nothing_is_missing_or_nobody_works(self) -> None:
        began = NOON - timedelta(minutes=10)
        quiet = {**REPORT, "action": "none"}
        assert cluster_status(gathered(at_work=removal(began), report=quiet)).addition is None
        assert cluster_status(gathered()).addition is None


def removal(began: datetime) -> RunAtWork:
    """A scale_in that holds the lease."""
    run = RunRow("scale-in-orders-1", "orders", "scale_in", began, ExecutionInput(cluster="orders"))
    lease = LeaseRow("orders", run.run_id, "scale_in", 7, NOON + timedelta(hours=6))
    return RunAtWork(lease, run, (), AT_WORK)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("peaker-prod-orders-replica-shortage", "orders"),
        ("peaker-prod-orders-eu-replica-shortage", "orders-eu"),
        ("peaker-prod-scale_out-workflow-failed", None),
        ("peaker-prod-invocation-failed", None),
    ],
)
def test_an_alarm_is_of_the_cluster_whose_name_it_has_whole(name: str, cluster: str | None) -> None:
    assert owner_of(name, "prod", ["carts", "orders", "orders-eu"]) == cluster


def test_the_kept_snapshots_are_shown_with_what_they_cost() -> None:
    kept = SnapshotSet("orders", RUN_ID, BASE, NOON - timedelta(hours=3), {"data": "snap-1", "log": "snap-2"}, {},
                       {"data": 70 * 2**30, "log": 3 * 2**30})  # fmt: skip
    told = shown(gathered(snapshot_sets=(kept,), prices=US_EAST_1))
    assert f"2 of {BASE} kept since" in told
    assert "73 GiB, $0.0050/h" in told
    unpriced = shown(gathered(snapshot_sets=(kept,), prices=Unknown("ssm:GetParameter: AccessDenied")))
    assert "73 GiB, unknown (ssm:GetParameter: AccessDenied)" in unpriced
    assert "unknown (throttled)" in shown(gathered(snapshot_sets=Unknown("throttled")))


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
