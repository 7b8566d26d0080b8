"""The run at work, as `peaker status` and the commands that follow a run give it, and its line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from peaker.domain.document.plan import ScaleOutPlan
from peaker.domain.instants import seconds_between
from peaker.domain.reading import Reading, Unknown
from peaker.domain.report.run_progress import PrewarmState, RunProgress, run_progress
from peaker.domain.runs.batch import Member
from peaker.domain.runs.ledger import LeaseRow, RunRow, StepRow
from peaker.domain.runs.run_execution import RunExecution

from peaker_cli.durations import clock, duration
from peaker_contract.cluster import ClusterSettings


@dataclass(frozen=True)
class MemberAtWork:
    """One replica of a batch, as the ledger has it."""

    run: RunRow
    steps: tuple[StepRow, ...]


@dataclass(frozen=True)
class RunAtWork:
    """The holder of the cluster's lease, and its run in the ledger; `run` is None before it is written.

    `execution` is what Step Functions says of it: a run whose execution was stopped keeps its lease until it is undone.
    `rolled_back`: a roll_back runs for that execution. `members` are those of a batch of several replicas.
    """

    lease: LeaseRow
    run: RunRow | None
    steps: tuple[StepRow, ...]
    execution: RunExecution | Unknown
    members: tuple[MemberAtWork, ...] = ()
    rolled_back: bool = False


@dataclass(frozen=True)
class MemberStatus:
    """One replica of a batch of several: built, returned or removed, where it stands, and the step that it is in."""

    run_id: str
    number: int
    method: str
    state: str
    progress: RunProgress | Unknown


@dataclass(frozen=True)
class RunStatus:
    """The run at work. `ready_at_by_plan` is what the plan predicted; the lease is renewed with every step.

    `undone_by_roll_back`: the execution ended, and a roll_back runs, or a step has begun since.
    """

    run_id: str
    operation: str
    reason: str
    started_at: datetime | None
    execution: RunExecution | Unknown
    undone_by_roll_back: bool
    progress: RunProgress | Unknown
    ready_at_by_plan: datetime | None
    lease_until: datetime
    members: tuple[MemberStatus, ...] = ()

    @property
    def is_later_than_planned(self) -> bool:
        """Tells whether its prewarm alone lasts longer than the plan had for all."""
        progress, planned = self.progress, self.ready_at_by_plan
        goes_on = (
            progress.prewarm.goes_on_at if isinstance(progress, RunProgress) and progress.prewarm else None
        )
        return goes_on is not None and planned is not None and goes_on > planned

    @property
    def ended(self) -> RunExecution | None:
        return ended_execution(self.execution)


def run_status(found: RunAtWork, settings: ClusterSettings, now: datetime) -> RunStatus:
    run = found.run
    plan = run.part(ScaleOutPlan) if run else None
    ended = ended_execution(found.execution)
    progress = run_progress(found.steps, settings, now, plan)
    return RunStatus(
        run_id=found.lease.run_id,
        operation=found.lease.operation,
        reason=run.request.why if run else "",
        started_at=run.started_at if run else None,
        execution=found.execution,
        undone_by_roll_back=ended is not None and _is_undone(found, ended),
        progress=_without_end(progress, ended.text) if ended else progress,
        ready_at_by_plan=plan.all_ready_at if plan else None,
        lease_until=found.lease.held_until,
        members=tuple(_members(found, settings, now)),
    )


def _members(found: RunAtWork, settings: ClusterSettings, now: datetime) -> Iterator[MemberStatus]:
    for one in found.members:
        member = one.run.part(Member)
        if member is not None:
            progress = run_progress(one.steps, settings, now, one.run.part(ScaleOutPlan))
            yield MemberStatus(
                one.run.run_id,
                member.number,
                "remove" if member.method is None else member.method.value,
                member.state,
                progress,
            )


def ended_execution(execution: RunExecution | Unknown) -> RunExecution | None:
    """The execution, when it is known to have ended."""
    return execution if isinstance(execution, RunExecution) and execution.ended else None


def is_worked_on(found: RunAtWork) -> bool:
    """Tells whether its execution runs, as far as is known, or roll_back has begun to undo it."""
    ended = ended_execution(found.execution)
    return ended is None or _is_undone(found, ended)


def _is_undone(found: RunAtWork, ended: RunExecution) -> bool:
    """A roll_back waits some minutes before its first step of the run; the sweep's undo is no execution."""
    since = ended.ended_at
    return found.rolled_back or (since is not None and any(step.started_at > since for step in found.steps))


def _without_end(progress: RunProgress | Unknown, why: str) -> RunProgress | Unknown:
    """Returns the progress without an expected end: nobody waits for a prewarm whose execution ended."""
    if isinstance(progress, Unknown) or progress.prewarm is None:
        return progress
    prewarm = replace(progress.prewarm, eta_seconds=Unknown(why), goes_on_at=None, deadline=None)
    return replace(progress, prewarm=prewarm)


NOT_AT_WORK = "roll_back has not begun (docs/runbooks/abort-run.md)"


def run_line(run: RunStatus | Unknown | None, now: datetime) -> str:
    if run is None:
        return "nothing at work"
    if isinstance(run, Unknown):
        return f"unknown ({run.why})"
    head = f"{run.operation} {run.run_id}, "
    return f"{head}{ended_line(run, run.ended) if run.ended else progress_line(run.progress, now)}"


def ended_line(run: RunStatus, ended: RunExecution) -> str:
    """Describes a run whose execution ended while it holds the lease, and who works on it."""
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
