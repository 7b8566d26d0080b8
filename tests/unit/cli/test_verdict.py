"""The first line of `peaker status` names the trouble, its runbook and the line to type."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from peaker.domain.instants import to_iso
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import RunRow, StepRow
from peaker.domain.runs.run_execution import RunExecution
from peaker_cli.status.document import STALE_AFTER_CHECKS, Alarm, EndedRun, cluster_status
from peaker_cli.status.run_at_work import RunAtWork
from peaker_cli.status.verdict import Word, verdict, worst_first
from peaker_cli.status.why import logged_report, sentences

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, fleet_with, orders, replica
from tests.unit.cli.test_status_document import REPORT, gathered, removal

PEAK = "i-000000000000c0001"
RUNBOOKS = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
QUIET = {**REPORT, "action": "none", "outcome": "hold", "required": 2, "reason": "2 replicas serve 95 of 160"}
BOTH = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=ReplicaState.IN_SERVICE))
SICK = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=ReplicaState.IN_SERVICE,
                                         health=TargetHealth(TargetState.UNHEALTHY)))  # fmt: skip
UNHEARD = fleet_with(replica(BASE, health=Unknown("elbv2:DescribeTargetHealth: Throttling")))
NONE_SERVES = fleet_with(replica(BASE, health=TargetHealth(TargetState.UNHEALTHY)))
LATE = {**QUIET, "at": to_iso(NOON - timedelta(hours=2))}
NEW = {**QUIET, "standing": "reactive_only", "history": "0.4 of 3 days of load"}
MISSING = {**REPORT, "required": 3}
OVER_BUDGET = {
    **REPORT,
    "outcome": "alarm",
    "action": "none",
    "reason": "a third would cost 12.10 of 10.00 USD/h",
}
FAILED_RUN = EndedRun("scale-out-orders-7", "rolled_back", NOON - timedelta(minutes=12),
                      "StartDatabase: ImageUnfit: mysql has uid 27, the donor's 112")  # fmt: skip
OVER_LIMIT = EndedRun("scale-out-orders-9", "refused", NOON - timedelta(minutes=4),
                      "PlanScaleOut: ScaleOutRefused: budget: 12.10 of 10.00 USD an hour", True)  # fmt: skip
STRANGER = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=None))
SOURCELESS = replace(BOTH, source=Unknown("two have its tag"))
WELL = EndedRun("scale-out-orders-8", "succeeded", NOON - timedelta(hours=3))
SHARED = Alarm("peaker-local-scale_out-workflow-failed", NOON, "1.0 >= 1.0", "workflow-failed")
DEAD_QUEUE = "peaker-local-orders-scheduled-check-undelivered"
DEAD = Alarm(
    "peaker-local-orders-scheduled-check-event-not-delivered", NOON, "1.0 >= 1.0", "event-not-delivered"
)
RULE = "peaker-local-orders-replica-shortage"


def quiet(**changes: Any) -> Any:
    return cluster_status(gathered(**{"fleet": BOTH, "report": QUIET, "last_run": WELL, **changes}))


def holds() -> RunAtWork:
    """A lease whose holder no execution began."""
    return replace(removal(NOON - timedelta(minutes=1)), execution=Unknown("no execution began it"))


def builds() -> RunAtWork:
    """A scale_out at work."""
    found = removal(NOON - timedelta(minutes=10))
    return replace(found, lease=replace(found.lease, run_id="scale-out-orders-9", operation="scale_out"))


def ended(by_roll_back: bool) -> RunAtWork:
    """A removal whose execution was stopped."""
    found = removal(NOON - timedelta(minutes=30))
    end = RunExecution("manual-1", "ABORTED", NOON - timedelta(minutes=5))
    began = NOON - timedelta(minutes=1 if by_roll_back else 9)
    return RunAtWork(found.lease, found.run, (StepRow("UndoRemoval", began),), end)


def test_a_cluster_without_trouble_is_ok_and_names_its_last_run() -> None:
    found = verdict(quiet())
    assert (found.word, found.exit_status, found.troubles) == (Word.OK, 0, ())
    assert found.first_line == "OK: last run scale-out-orders-8 succeeded 3 h 00 min ago"


@pytest.mark.parametrize(
    ("changes", "word", "said", "runbook", "line"),
    [
        ({"last_run": FAILED_RUN}, Word.FAILED, "ImageUnfit: mysql has uid 27", "workflow-failed",
         "peaker receipt scale-out-orders-7"),
        ({"at_work": ended(by_roll_back=False)}, Word.FAILED, "roll_back has not begun", "abort-run",
         "peaker receipt scale-in-orders-1"),
        ({"at_work": ended(by_roll_back=True)}, Word.WAITING, "roll_back undoes it", "abort-run",
         "peaker watch orders"),
        ({"at_work": replace(ended(by_roll_back=False), rolled_back=True)}, Word.WAITING, "roll_back undoes it",
         "abort-run", "peaker watch orders"),
        ({"paused_rules": (RULE,)}, Word.PAUSED, f"disabled by hand: {RULE}", "stop-everything",
         "peaker resume orders"),
        ({"load": Known(190.0, NOON)}, Word.SHORT, "the load 190 is 30 above the capacity of 160", "replica-shortage",
         "peaker scale-out orders"),
        ({"report": MISSING}, Word.SHORT, "1 of 3 replicas are missing, and no run builds them", "replica-shortage",
         "peaker scale-out orders"),
        ({"fleet": NONE_SERVES}, Word.SHORT, "0 of at least 1 replicas serve", "empty-read-endpoint",
         "peaker doctor orders"),
        ({"alarms": (DEAD,)}, Word.FAILED, f"a message lies in {DEAD_QUEUE}", "event-not-delivered",
         'aws sqs receive-message --region us-east-1 --message-attribute-names All --queue-url '
         f'"$(aws sqs get-queue-url --region us-east-1 --queue-name {DEAD_QUEUE} --query QueueUrl --output text)"'),
        ({"alarms": (SHARED,)}, Word.FAILED, SHARED.name, "workflow-failed", "peaker runs orders"),
        ({"load": Unknown("no point for 20 min")}, Word.FAILED, "the load is unknown: no point for 20 min",
         "forecast-degraded", "peaker doctor orders"),
        ({"report": NEW, "load": Known(95.0, NOON)}, Word.WAITING,
         "no forecast yet: 0.4 of 3 days of load; the measured load", "forecast-degraded", "peaker doctor orders"),
        ({"report": NEW, "load": Unknown("no point for 20 min")}, Word.FAILED, "the load is unknown",
         "forecast-degraded", "peaker doctor orders"),
        ({"report": {**NEW, "outcome": "alarm", "awaits_load": True}, "load": Unknown("no point")}, Word.WAITING,
         "no load yet", "forecast-degraded", "peaker doctor orders"),
        ({"alarms": Unknown("cloudwatch:DescribeAlarms: Throttling")}, Word.UNKNOWN, "Throttling", "invocation-failed",
         "peaker watch orders"),
        ({"fleet": UNHEARD}, Word.UNKNOWN, "who serves unknown: elbv2:DescribeTargetHealth: Throttling",
         "invocation-failed", "peaker watch orders"),
        ({"alarms": Unknown("cloudwatch:DescribeAlarms: AccessDenied")}, Word.UNKNOWN, "AccessDenied",
         "invocation-failed", "peaker doctor orders"),
        ({"at_work": removal(NOON - timedelta(minutes=10)), "report": REPORT}, Word.WAITING,
         "for the lease of scale_in scale-in-orders-1", "replica-shortage", "peaker watch orders"),
        ({"fleet": SICK, "load": Known(60.0, NOON)}, Word.FAILED, f"{PEAK} does not serve", "empty-read-endpoint",
         f"peaker retire orders {PEAK}"),
        ({"report": None}, Word.FAILED, "no forecast: forecast_load has not run yet", "forecast-stale",
         "peaker doctor orders"),
        ({"report": LATE}, Word.FAILED, "no forecast for 2 h 00 min", "forecast-stale", "peaker doctor orders"),
        ({"report": LATE, "paused_rules": ("peaker-local-orders-forecast",)}, Word.FAILED, "its rule is disabled",
         "forecast-stale", "peaker resume orders"),
        ({"report": MISSING, "last_run": OVER_LIMIT}, Word.SHORT, "was refused: PlanScaleOut: ScaleOutRefused: budget",
         "replica-shortage", "peaker scale-out orders --above-limits --reason TEXT"),
        ({"report": MISSING, "last_run": replace(OVER_LIMIT, refused_by_limits=False)}, Word.SHORT, "was refused",
         "replica-shortage", "peaker plan orders"),
        ({"report": {**MISSING, "observing": True, "observation": "mode observe"}}, Word.SHORT,
         "Peaker only observes: mode observe", "replica-shortage", "peaker plan orders"),
        ({"load": Known(190.0, NOON), "at_work": builds()}, Word.SHORT, "scale-out-orders-9 builds", "replica-shortage",
         "peaker watch orders"),
        ({"at_work": holds()}, Word.WAITING, "scale-in-orders-1 holds the lease until 21 Nov 18:00 UTC", "abort-run",
         "peaker watch orders"),
        ({"fleet": STRANGER}, Word.FAILED, f"{PEAK} has the tags of a peak replica, and no run made it",
         "undo-incomplete", "peaker doctor orders"),
        ({"fleet": SOURCELESS}, Word.FAILED, "the source is unknown: two have its tag", "workflow-failed",
         "peaker doctor orders"),
        ({"report": OVER_BUDGET}, Word.FAILED, "a third would cost 12.10 of 10.00 USD/h", "rules-cannot-be-met",
         "peaker plan orders"),
    ],
)  # fmt: skip
def test_the_first_line_names_the_trouble_its_runbook_and_the_line_to_type(
    changes: dict[str, Any], word: Word, said: str, runbook: str, line: str
) -> None:
    found = verdict(quiet(**changes))
    first, where = found.troubles[0], " --env local" if line.startswith("peaker") else ""
    assert (found.word, first.runbook, first.line) == (word, runbook, line + where)
    assert said in found.first_line
    assert (RUNBOOKS / f"{runbook}.md").is_file()


def test_a_run_that_failed_days_ago_is_history_unless_its_undo_is_open() -> None:
    long_ago = replace(FAILED_RUN, ended_at=NOON - timedelta(days=2))
    assert verdict(quiet(last_run=long_ago)).word is Word.OK
    still_open = verdict(quiet(last_run=replace(long_ago, outcome="undo_incomplete")))
    assert (still_open.word, still_open.troubles[0].runbook) == (Word.FAILED, "undo-incomplete")


def test_a_run_that_a_person_stopped_is_no_trouble_once_it_is_undone() -> None:
    stopped = replace(FAILED_RUN, stopped=True, failure="Execution: ExecutionAborted: to see the undo")
    found = verdict(quiet(last_run=stopped))
    assert found.first_line == "OK: last run scale-out-orders-7 stopped by hand, rolled back 12 min 00 s ago"
    assert verdict(quiet(last_run=replace(stopped, outcome="undo_incomplete"))).word is Word.FAILED


def test_the_worst_stands_first_and_the_others_follow() -> None:
    found = verdict(quiet(load=Known(190.0, NOON), paused_rules=(RULE,), last_run=FAILED_RUN))
    assert [one.word for one in found.troubles] == [Word.SHORT, Word.FAILED, Word.PAUSED]
    assert found.exit_status == 2


def test_of_several_clusters_the_worst_comes_first() -> None:
    well = cluster_status(gathered(settings=orders(name="carts"), fleet=BOTH, report=QUIET))
    short = quiet(load=Known(190.0, NOON))
    assert [one.cluster for one in worst_first([well, short])] == ["orders", "carts"]


CHECK: dict[str, Any] = {
    "cluster": "orders",
    "at": to_iso(NOON - timedelta(minutes=4)),
    "action": "none",
    "outcome": "hold",
    "reason": "1 replica serves and 1 is being built, as needed by the load of 720.9 now",
    "load_now": 720.9,
    "serving": 1,
    "building": 1,
    "required": 2,
    "capacity_per_replica": 500.0,
    "capacity_basis": "from the settings",
    "lead_time_p90_seconds": 4200.0,
    "quantile": 0.95,
    "standing": "normal",
    "observing": False,
    "observation": "observed for 20.0 days",
    "few_reads": [],
    "read_shares": {},
    "numbers": {"forecast_upper": 800.0},
}
ORDER = ExecutionInput(cluster="orders", reason="the load will need 2")
RUN = RunRow("scale-out-orders-7", "orders", "scale_out", NOON - timedelta(minutes=3), ORDER)


def told(*runs: RunRow, **changes: Any) -> str:
    return "\n".join(sentences({**CHECK, **changes}, runs, NOON, orders()))


def test_it_says_what_was_decided_by_which_load_capacity_and_forecast() -> None:
    first, *facts = told().splitlines()
    assert first == (
        "orders: the check of 21 Nov 11:56 UTC, 4 min 00 s before, left the fleet as it is: "
        "1 replica serves and 1 is being built, as needed by the load of 720.9 now."
    )
    assert facts == [
        "The load was 720.9; 1 replica served at 500 each (from the settings), 500 in all, 1 was being built.",
        "A replica begun then would have served in 1 h 10 min; the forecast for then was 800 (p95). "
        "The forecast is normal.",
        "So 2 replicas were needed, of at least 1 and at most 3 by the settings of now.",
    ]


def test_an_unknown_is_no_number() -> None:
    text = told(load_now=None, serving=None, numbers={})
    assert "The load was not known; how many replicas served was not known." in text
    assert "no forecast reached so far" in text


def test_a_run_that_followed_is_named_and_so_is_that_none_did() -> None:
    asked = {"action": "scale_out", "outcome": "act", "reason": "2 are missing"}
    assert "asked for more replicas: 2 are missing." in told(**asked)
    assert "or a run was at work (peaker status orders --env local)." in told(**asked)
    assert "scale-out-orders-7 began at 21 Nov 11:57 UTC (the load will need 2): running." in told(
        RUN, **asked
    )
    observed = told(**asked, observing=True, observation="the cluster is in mode observe")
    assert "Nothing was started, as Peaker only observes: the cluster is in mode observe." in observed
    assert "No run began" not in observed


def test_a_check_that_is_long_ago_is_said_to_be_the_last() -> None:
    assert "1 h 00 min before, and none has come since" in told(at=to_iso(NOON - timedelta(hours=1)))


def test_a_replica_that_gets_few_reads_counted_as_less() -> None:
    text = told(few_reads=["i-1"], read_shares={"i-1": 0.34})
    assert "i-1 counted as 34% of a replica" in text


@pytest.mark.parametrize(("minutes", "found"), [(0, "newest"), (6, "older"), (30, None)])
def test_of_an_earlier_time_the_log_has_the_check(minutes: int, found: str | None) -> None:
    def line(cluster: str, minutes_ago: int, reason: str) -> str:
        report = {"cluster": cluster, "at": to_iso(NOON - timedelta(minutes=minutes_ago)), "reason": reason}
        return f"INFO {json.dumps({'message': reason, 'report': report})}\n"

    lines = [
        line("orders", 8, "older"),
        line("orders", 4, "newest"),
        line("carts", 1, "another's"),
        "no json {",
    ]
    pages = SimpleNamespace(paginate=lambda **_: [{"events": [{"message": one} for one in lines]}])
    client = SimpleNamespace(get_paginator=lambda _: pages)
    control: Any = SimpleNamespace(environment="prod", client=lambda _: client)
    report = logged_report(control, orders(), NOON - timedelta(minutes=minutes))
    assert (report or {}).get("reason") == found


@pytest.mark.parametrize(("schedule", "minutes"), [(15, 60), (1440, 1440 * STALE_AFTER_CHECKS)])
def test_the_log_is_searched_as_far_back_as_the_last_check_may_be(schedule: int, minutes: int) -> None:
    asked: dict[str, Any] = {}
    pages = SimpleNamespace(paginate=lambda **given: asked.update(given) or [])
    client = SimpleNamespace(get_paginator=lambda _: pages)
    control: Any = SimpleNamespace(environment="prod", client=lambda _: client)
    assert logged_report(control, orders(forecast={"schedule_minutes": schedule}), NOON) is None
    assert asked["startTime"] == (NOON - timedelta(minutes=minutes)).timestamp() * 1000
