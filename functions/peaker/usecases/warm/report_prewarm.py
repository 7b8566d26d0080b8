"""ReportPrewarm: how far the engine is, and when to ask again."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from peaker.domain.host_results import PrewarmReport, typed
from peaker.domain.instants import in_words, seconds_between
from peaker.domain.replicas.inventory import Numbers
from peaker.domain.runs.run import PrewarmStep, StepInput, Summary
from peaker.domain.storage.prewarm_progress import (
    is_hot_by_next_look,
    pause_seconds,
    remaining_seconds,
    second_look_seconds,
)
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import build_of_run, host_id, step_began
from peaker_contract.errors import PrewarmDeadlineExceeded, PrewarmFailed
from peaker_contract.storage_settings import ServeWhen

# Until an engine has run for so long its rate says little about the rest.
TRUSTED_AFTER_SECONDS = 60
MOST_STARTS = 4
# By how much the last report would have missed the deadline; a second one in a row fails the run.
MISSED_BY = "deadline_missed_by_seconds"


class PrewarmProgress(Summary):
    """The child workflow decides on this progress. `hot`: the hot set is warm and is all that is waited for;
    or it will be before the next look, and a database is to start.
    """

    state: Literal["running", "hot", "done", "dead"]
    pause_seconds: int


def report_prewarm(ports: Ports, step: PrewarmStep) -> PrewarmProgress:
    """Raises PrewarmFailed when the engine gave up or died four times, PrewarmDeadlineExceeded when time is up or will
    not do.

    A database may start on the hot and recovery blocks, and while the last of them are read; where nobody knows what is
    hot it starts when all is warm.
    """
    serve_when = build_of_run(ports, step).prewarm.serve_when
    waits_for: ServeWhen = "hot" if step.until == "database" else serve_when
    instance_id = host_id(ports, step, "replica")
    numbers = run_host_command(
        ports, step, "report_prewarm", instance_id, {"RunId": step.run_id}, repeat=True
    )
    report = typed("report_prewarm", PrewarmReport, numbers)
    state = _state(step, waits_for, report, instance_id)
    if state == "running" and step.until == "database" and is_hot_by_next_look(report):
        state = "hot"
    missed_by = None
    if state in ("running", "dead"):
        left = remaining_seconds(serve_when, report)
        missed_by = _check_deadline(ports, step, serve_when, report, left)
    if state == "dead" and step.starts >= MOST_STARTS:
        raise PrewarmFailed(f"the prewarm engine died four times, at last so: {_text(state, report)}")
    remaining = remaining_seconds(waits_for, report)
    passed = report.elapsed_seconds
    return PrewarmProgress(
        text=_text(state, report),
        numbers=numbers if missed_by is None else {**numbers, MISSED_BY: round(missed_by, 1)},
        state=state,
        pause_seconds=pause_seconds(remaining, passed) if missed_by is None else second_look_seconds(passed),
    )


def _state(
    step: PrewarmStep, waits_for: ServeWhen, report: PrewarmReport, instance_id: str
) -> Literal["running", "hot", "done", "dead"]:
    """Hot blocks stay hot when their engine dies; what is left is then read by another one, or behind the database."""
    if report.state == "failed":
        raise PrewarmFailed(f"{instance_id}: {report.message or 'the engine says failed'}")
    if report.state == "running" and report.used_warm_seconds is not None:
        return "done"
    if report.state != "done" and waits_for == "hot" and report.hot_warm_seconds is not None:
        return "hot"
    return report.state


def _last_report(ports: Ports, step: StepInput) -> Numbers:
    row = next((row for row in ports.ledger.steps(step.run_id) if row.step == step.step), None)
    return {} if row is None else row.numbers


def _check_deadline(
    ports: Ports, step: StepInput, serve_when: ServeWhen, report: PrewarmReport, remaining: float | None
) -> float | None:
    """Fail as soon as two reports in a row say that the deadline cannot be met, not only when it has passed.

    The seconds by which this report misses it, None where it does not: one slow minute is no verdict.
    """
    minutes = ports.clusters.settings(step.cluster).limits.prewarm_deadline_minutes
    started = step_began(ports, step, "StartPrewarm")
    if started is None:
        return None
    left = seconds_between(ports.clock.now(), started + timedelta(minutes=minutes))
    if left < 0:
        raise PrewarmDeadlineExceeded(
            f"not warm {minutes} min after {in_words(started)} (limits.prewarm_deadline_minutes); "
            + _what_can_be_met(serve_when, report, minutes * 60 - left)
        )
    if remaining is None or (report.elapsed_seconds or 0.0) < TRUSTED_AFTER_SECONDS or remaining <= left:
        return None
    if MISSED_BY not in _last_report(ports, step):
        return remaining - left
    raise PrewarmDeadlineExceeded(
        f"{remaining:.0f} s are still needed at {report.rate_mib_per_s or 0:.0f} MiB/s, {left:.0f} s are left of "
        f"limits.prewarm_deadline_minutes {minutes}; "
        + _what_can_be_met(serve_when, report, minutes * 60 - left)
    )


def _what_can_be_met(serve_when: ServeWhen, report: PrewarmReport, spent_seconds: float) -> str:
    """The deadlines that this engine could meet, counted from the start of the prewarm."""
    if report.eta_seconds is None:
        return "the engine does not know how long it still takes"
    everything = f"everything can be warm after {_minutes(spent_seconds + report.eta_seconds)} min"
    if serve_when == "hot" or report.hot_eta_seconds is None:
        return everything
    hot = _minutes(spent_seconds + report.hot_eta_seconds)
    return f"{everything}, the hot set after {hot} min (prewarm.serve_when: hot)"


def _minutes(seconds: float) -> int:
    return int(-(-seconds // 60))


def _text(state: str, report: PrewarmReport) -> str:
    blocks = f"{report.blocks_done} of {report.blocks_total} blocks"
    rate = "" if report.rate_mib_per_s is None else f" at {report.rate_mib_per_s:.0f} MiB/s"
    hot_in = report.hot_eta_seconds if report.hot_warm_seconds is None else None
    hot = "is warm" if hot_in is None else f"will be warm in {hot_in:.0f} s"
    rest = f"; the hot set {hot}, the rest follows" if state == "hot" else ""
    if state == "done" and report.state == "running":
        rest = "; all that is used is warm, the rest of the snapshot follows behind the database"
    unknown = f"; {report.hot_unknown}" if report.hot_unknown else ""
    throttled = f"; throttled for the database: {report.throttled}" if report.throttled else ""
    died = f"; {report.message}" if state == "dead" and report.message else ""
    return f"{state}: {blocks}{rate}{rest}{unknown}{throttled}{died}"
