"""The run at work in a line: its step, since when, and how far a prewarm is. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Reading, Unknown
from peaker.domain.report.run_progress import PrewarmState, RunProgress
from peaker.domain.runs.run_execution import RunExecution

from peaker_cli.durations import clock, duration
from peaker_cli.status.run_at_work import RunStatus

NOT_AT_WORK = "roll_back has not begun (docs/runbooks/abort-run.md)"


def run_line(run: RunStatus | Unknown | None, now: datetime) -> str:
    """Describes the run at work, in short."""
    if run is None:
        return "nothing at work"
    if isinstance(run, Unknown):
        return f"unknown ({run.why})"
    head = f"{run.operation} {run.run_id}, "
    return f"{head}{ended_line(run, run.ended) if run.ended else progress_line(run.progress, now)}"


def ended_line(run: RunStatus, ended: RunExecution) -> str:
    """Describes a run whose execution ended while it holds the lease: how it ended, and whether anybody works
    on it.
    """
    if run.undone_by_roll_back:
        step = run.progress.step if isinstance(run.progress, RunProgress) else "step unknown"
        return f"{ended.text}; roll_back undoes it, {step}"
    last = f", in {run.progress.step}" if isinstance(run.progress, RunProgress) else ""
    return f"{ended.text}{last}; {NOT_AT_WORK}"


def progress_line(progress: RunProgress | Unknown, now: datetime) -> str:
    """The step, since when and, in a prewarm, how far and until when."""
    if isinstance(progress, Unknown):
        return f"step unknown ({progress.why})"
    since = duration(max(0.0, seconds_between(progress.since, now)))
    if progress.between:
        return f"{progress.step} is over, the next step begins"
    line = f"{progress.step} for {since}"
    if progress.concurrent:
        line += f", beside {', '.join(progress.concurrent)}"
    if progress.prewarm is not None:
        line += f": {prewarm_line(progress.prewarm)}"
    return line


def prewarm_line(prewarm: PrewarmState) -> str:
    """`43% of 6,144 blocks at 25 MiB/s, goes on in 12 min 05 s (21 Nov 14:32 UTC, when it has all blocks)`"""
    done = describe_as(prewarm.share, lambda value: f"{value:.0%}")
    total = describe_as(prewarm.blocks_total, lambda value: f"{value:,.0f}")
    rate = describe_as(prewarm.rate_mib_per_s, lambda value: f"{value:.1f} MiB/s")
    eta = "remaining time unknown"
    if isinstance(prewarm.eta_seconds, Unknown):
        eta += f" ({prewarm.eta_seconds.why})"
    elif prewarm.goes_on_at is not None:
        eta = (
            f"goes on in {duration(prewarm.eta_seconds.value)} "
            f"({clock(prewarm.goes_on_at)}, when it has {prewarm.waits_for})"
        )
    return f"{done} of {total} blocks at {rate}, {eta}"


def describe_as(reading: Reading, shown: Callable[[float], str]) -> str:
    """The value in that form, or why it is unknown."""
    return f"unknown ({reading.why})" if isinstance(reading, Unknown) else shown(reading.value)
