"""The progress of a run, from its steps in the ledger. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from peaker.domain.document.plan import ScaleOutPlan, planned_build
from peaker.domain.host_results import PrewarmReport
from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.runs.ledger import StepRow
from peaker.domain.storage.prewarm_progress import noticed_after_seconds, remaining_seconds
from peaker_contract.catalogue import concurrent_states, states_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.steps import Part
from peaker_contract.storage_settings import ServeWhen

# Branches that run side by side; the step that started last is not the only one at work.
_SIDE_BY_SIDE = concurrent_states()
_START, _REPORT = states_of(Part.HYDRATION)
_RECOVERY = states_of(Part.RECOVERY)


@dataclass(frozen=True)
class PrewarmState:
    """The engine's last report. Blocks are of 512 KiB; `share` (0 to 1) is of all blocks.

    `goes_on_at` is when the workflow will find that the replica may go on: with all blocks or, where the cluster serves
    on that, with the hot set. `deadline` is when the run gives up.
    """

    reported_at: datetime
    share: Reading
    blocks_done: Reading
    blocks_total: Reading
    rate_mib_per_s: Reading
    eta_seconds: Reading
    goes_on_at: datetime | None
    waits_for: str
    deadline: datetime | None


@dataclass(frozen=True)
class RunProgress:
    """The step at work and since when; `between` is true while the next one has not recorded its start."""

    step: str
    since: datetime
    between: bool = False
    concurrent: tuple[str, ...] = ()
    prewarm: PrewarmState | None = None


def run_progress(
    steps: Sequence[StepRow], settings: ClusterSettings, now: datetime, plan: ScaleOutPlan | None = None
) -> RunProgress | Unknown:
    """Steps in any order. Unknown before the first one has begun. The plan says what has to be warm, today's settings
    until when; without a plan they say both.
    """
    rows = sorted(steps, key=lambda row: row.started_at)
    if not rows:
        return Unknown("no step has recorded its start yet")
    newest = rows[-1]
    planned = (None if plan is None else plan.build) or planned_build(settings)
    deadline = timedelta(minutes=settings.limits.prewarm_deadline_minutes)
    prewarm = _prewarm_at_work(rows, planned.prewarm.serve_when, deadline, now)
    if prewarm is not None:
        return prewarm
    open_rows = [row for row in rows if row.finished_at is None]
    if newest.step in _SIDE_BY_SIDE:
        others = [row for row in open_rows if row.step in _SIDE_BY_SIDE]
        if others:
            return RunProgress(
                others[-1].step, others[-1].started_at, concurrent=tuple(row.step for row in others[:-1])
            )
    if newest.finished_at is None:
        return RunProgress(newest.step, newest.started_at)
    return RunProgress(newest.step, newest.started_at, between=True)


def _prewarm_at_work(
    rows: Sequence[StepRow], serve_when: ServeWhen, deadline: timedelta, now: datetime
) -> RunProgress | None:
    """The prewarm while it is the newest step: its polls end and begin again as long as the engine reads.

    The database starts between two of them; once replication has started the replica waits for the rest.
    """
    newest = rows[-1]
    behind_database = newest.step == _RECOVERY[-1] and newest.finished_at is not None
    if newest.step not in {_START, _REPORT} and not behind_database:
        return None
    start = next((row for row in rows if row.step == _START), None)
    report_row = next((row for row in rows if row.step == _REPORT), None)
    if start is None and behind_database:
        return None
    start = start or newest
    if report_row is None or report_row.finished_at is None:
        return RunProgress((report_row or start).step, start.started_at)
    report = _report(report_row)
    if isinstance(report, Unknown):
        return RunProgress(_REPORT, start.started_at)
    # Until the database has begun its hot blocks end the wait; what people are told is when the replica may serve.
    enough_when_hot = serve_when == "hot" or not behind_database
    over = (
        report.state == "done"
        or report.used_warm_seconds is not None
        or (enough_when_hot and report.hot_warm_seconds is not None)
    )
    if over:
        return None if behind_database else RunProgress(_REPORT, start.started_at, between=True)
    state = _state(report, report_row.finished_at, serve_when, start.started_at + deadline, now)
    return RunProgress(_REPORT, start.started_at, prewarm=state)


def _report(row: StepRow) -> PrewarmReport | Unknown:
    try:
        return PrewarmReport.model_validate(row.numbers)
    except ValidationError:
        return Unknown(f"the ledger's numbers of {row.step} are of another release")


def _state(
    report: PrewarmReport,
    reported_at: datetime,
    serve_when: ServeWhen,
    deadline: datetime,
    now: datetime,
) -> PrewarmState:
    remaining = remaining_seconds(serve_when, report)
    goes_on_at = None
    eta: Reading = Unknown("the engine does not know its rate yet")
    if report.state == "dead":
        eta = Unknown("the engine died; it is started again where its journal ends")
    elif remaining is not None:
        goes_on_at = reported_at + timedelta(seconds=noticed_after_seconds(remaining, report.elapsed_seconds))
        eta = Known(max(0.0, seconds_between(now, goes_on_at)), reported_at)
    return PrewarmState(
        reported_at=reported_at,
        share=_share(report, reported_at),
        blocks_done=_reading(report.blocks_done, reported_at),
        blocks_total=_reading(report.blocks_total, reported_at),
        rate_mib_per_s=_reading(report.rate_mib_per_s, reported_at),
        eta_seconds=eta,
        goes_on_at=goes_on_at,
        waits_for="the hot set" if serve_when == "hot" else "all that is used",
        deadline=deadline,
    )


def _share(report: PrewarmReport, at: datetime) -> Reading:
    if not report.blocks_total or report.blocks_done is None:
        return Unknown("the engine has not counted its blocks yet")
    return Known(report.blocks_done / report.blocks_total, at)


def _reading(value: float | None, at: datetime) -> Reading:
    return Unknown(f"not in the report of {to_iso(at)}") if value is None else Known(float(value), at)
