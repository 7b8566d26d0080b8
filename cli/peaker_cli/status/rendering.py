"""A status for a person: a panel for one cluster, a line each for all, and the line that a watch appends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from peaker.domain.instants import seconds_between
from peaker.domain.planning.taken_reads import WHOLE_SHARE
from peaker.domain.reading import Known, Reading, Unknown, describe
from peaker.domain.report.run_progress import PrewarmState, RunProgress
from peaker.domain.runs.run_execution import RunExecution
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from peaker_cli.durations import duration
from peaker_cli.status.document import ClusterStatus, DecisionStatus, ReplicaStatus
from peaker_cli.status.run_at_work import MemberStatus, RunStatus
from peaker_cli.status.verdict import last_run_line, verdict, worst_first

_BAR_CELLS = 24
NOT_AT_WORK = "roll_back has not begun (docs/runbooks/abort-run.md)"


def render_status(status: ClusterStatus) -> RenderableType:
    """One cluster: replicas, the run at work, the forecast against the capacity, the last decision, alarms."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("source", _text(status.source))
    table.add_row("last run", last_run_line(status.last_run, status.at))
    for line in _run_lines(status):
        table.add_row(*line)
    if status.addition is not None:
        waiting = (
            f"an addition, since {_clock(status.addition.since)}, for the lease of {status.addition.lease_of}"
        )
        table.add_row("waits", Text(waiting, style="yellow"))
    for line in _capacity_lines(status):
        table.add_row(*line)
    table.add_row("last check", decision_line(status.decision, status.at))
    for line in _snapshot_lines(status):
        table.add_row(*line)
    for line in _alarm_lines(status):
        table.add_row(*line)
    found = verdict(status)
    also = [Text(one.text, style="yellow") for one in found.troubles[1:]]
    first = Text(found.first_line, style="bold red" if found.exit_status > 1 else "bold")
    title = f"{status.cluster} in {status.environment} at {status.at:%d %b %H:%M:%S} UTC"
    return Group(
        first, *also, Panel(Group(_replica_table(status), Text(), table), title=title, padding=(0, 1))
    )


def render_overview(statuses: Sequence[ClusterStatus]) -> RenderableType:
    """One line per cluster, the worst first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cluster", "stands", "replicas", "load", "capacity", "at work", "alarms"):
        table.add_column(column, overflow="fold")
    for one in worst_first(statuses):
        table.add_row(
            one.cluster,
            verdict(one).word,
            _replicas_text(one),
            _value(one.capacity.load, _plain),
            _value(one.capacity.capacity, _plain),
            _at_work_line(one),
            _alarms_text(one),
        )
    return table


def status_line(status: ClusterStatus) -> str:
    """The status in one line, for a watch whose output is no terminal."""
    return "; ".join(
        (
            f"{status.at:%Y-%m-%dT%H:%M:%SZ} {status.cluster}: {verdict(status).word}, {_replicas_text(status)}",
            f"load {_value(status.capacity.load, _plain)} of {_value(status.capacity.capacity, _plain)}",
            _at_work_line(status),
            f"alarms: {_alarms_text(status)}",
        )
    )


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
    """`43 % of 6,144 blocks at 25 MiB/s, goes on in 12 min 05 s (14:32, all blocks)`"""
    done = _value(prewarm.share, lambda value: f"{value:.0%}")
    total = _value(prewarm.blocks_total, lambda value: f"{value:,.0f}")
    rate = _value(prewarm.rate_mib_per_s, lambda value: f"{value:.1f} MiB/s")
    eta = "remaining time unknown"
    if isinstance(prewarm.eta_seconds, Unknown):
        eta += f" ({prewarm.eta_seconds.why})"
    elif prewarm.goes_on_at is not None:
        eta = (
            f"goes on in {duration(prewarm.eta_seconds.value)} "
            f"({prewarm.goes_on_at:%H:%M:%S}, when it has {prewarm.waits_for})"
        )
    return f"{done} of {total} blocks at {rate}, {eta}"


def decision_line(decision: DecisionStatus | Unknown, now: datetime) -> str:
    """Describes the newest check's decision, its reason and its age."""
    if isinstance(decision, Unknown):
        return f"unknown ({decision.why})"
    age = duration(max(0.0, seconds_between(decision.at, now)))
    overdue = ", OVERDUE" if decision.overdue else ""
    observing = f"; only observing: {decision.observing}" if decision.observing else ""
    action = "nothing to do" if decision.action == "none" else decision.action
    return f"{action} ({decision.outcome}), {age} ago{overdue}: {decision.reason}{observing}"


def _replica_table(status: ClusterStatus) -> RenderableType:
    if isinstance(status.replicas, Unknown):
        return Text(f"replicas: unknown ({status.replicas.why})", style="yellow")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("replica", "role", "zone", "state", "endpoint"):
        table.add_column(column, overflow="fold")
    table.add_column("lag", overflow="fold")
    table.add_column("reads", overflow="fold")
    for one in status.replicas:
        table.add_row(*_replica_row(one))
    if not status.replicas:
        return Text("replicas: none")
    lines = [*_unknown_lines(status.replicas), *_few_reads_lines(status.replicas)]
    return Group(table, *(Text(line, style="yellow") for line in lines))


def _few_reads_lines(replicas: Sequence[ReplicaStatus]) -> list[str]:
    """Which replicas take few of the reads, and what they count as; of the others there is nothing to say."""
    return [
        f"{one.instance_id} takes {one.share_of_a_peer.value:.0%} of a peer's reads"
        + (", and counts as that (docs/read-endpoint.md, Clients)" if one.counts_less else "")
        for one in replicas
        if isinstance(one.share_of_a_peer, Known) and one.share_of_a_peer.value < WHOLE_SHARE
    ]


def _unknown_lines(replicas: Sequence[ReplicaStatus]) -> list[str]:
    """Explains each unknown cell of the table: the reason, and the replicas."""
    named: dict[str, list[str]] = {}
    for one in replicas:
        for what, reading in (("lag", one.lag_seconds), ("reads", one.share_of_reads)):
            if isinstance(reading, Unknown):
                named.setdefault(f"{what} unknown: {reading.why}", []).append(one.instance_id)
    return [f"{reason} ({', '.join(ids)})" for reason, ids in named.items()]


def _replica_row(one: ReplicaStatus) -> tuple[str, ...]:
    return (
        one.instance_id,
        one.role,
        one.zone,
        one.state.replace("_", " "),
        one.endpoint,
        _short(one.lag_seconds, lambda value: f"{value:g} s"),
        _short(one.share_of_reads, lambda value: f"{value:.1%}"),
    )


def _run_lines(status: ClusterStatus) -> list[tuple[str, RenderableType]]:
    run = status.run
    if run is None or isinstance(run, Unknown):
        return [("at work", Text(run_line(run, status.at)))]
    started = f" since {run.started_at:%d %b %H:%M:%S}" if run.started_at else ""
    head = f"{run.operation} {run.run_id}{started}, {run.reason or 'started by hand'}"
    lines: list[tuple[str, RenderableType]] = [
        ("at work", Text(head)),
        _step_line(run, status.at),
    ]
    prewarm = run.progress.prewarm if isinstance(run.progress, RunProgress) else None
    if prewarm is not None:
        lines.append(("", Text(_bar(prewarm))))
        if prewarm.deadline is not None:
            left = duration(max(0.0, seconds_between(status.at, prewarm.deadline)))
            lines.append(("deadline", Text(f"{prewarm.deadline:%d %b %H:%M} (in {left}); then it fails")))
    lines += [(f"member {one.number}", Text(_member_line(one, status.at))) for one in run.members]
    if run.ready_at_by_plan is not None and not run.ended:
        lines.append(("ready by plan", Text(f"{run.ready_at_by_plan:%d %b %H:%M:%S}")))
    return lines


def _at_work_line(status: ClusterStatus) -> str:
    return run_line(status.run, status.at)


def _member_line(member: MemberStatus, now: datetime) -> str:
    """`build, LaunchReplica for 40.0 s`, or where it stands once it has ended."""
    if member.state == "at_work":
        return f"{member.method}, {progress_line(member.progress, now)}"
    return f"{member.method}, {member.state.replace('_', ' ')}"


def _step_line(run: RunStatus, now: datetime) -> tuple[str, RenderableType]:
    if run.ended:
        return ("ended", Text(ended_line(run, run.ended), style="red"))
    unknown = f"; execution unknown ({run.execution.why})" if isinstance(run.execution, Unknown) else ""
    return ("step", Text(progress_line(run.progress, now) + unknown))


def _bar(prewarm: PrewarmState) -> str:
    if isinstance(prewarm.share, Unknown):
        return f"share unknown ({prewarm.share.why})"
    cells = round(prewarm.share.value * _BAR_CELLS)
    done = _value(prewarm.blocks_done, lambda value: f"{value:,.0f}")
    reported = f"{prewarm.reported_at:%H:%M:%S}"
    return f"{'█' * cells}{'░' * (_BAR_CELLS - cells)} {done} blocks, as of {reported}"


def _load(status: ClusterStatus) -> str:
    """The load with its source and its age."""
    load, source = status.capacity.load, status.capacity.load_source
    if isinstance(load, Unknown) or load.measured_at is None:
        return f"{_value(load, _plain)} now ({source})"
    return (
        f"{_plain(load.value)} now ({source}, {duration(seconds_between(load.measured_at, status.at))} old)"
    )


def _capacity_lines(status: ClusterStatus) -> list[tuple[str, str]]:
    capacity = status.capacity
    forecast = _value(capacity.forecast, _plain)
    if isinstance(capacity.forecast, Known) and isinstance(capacity.forecast_for_seconds, Known):
        forecast += f" in {duration(capacity.forecast_for_seconds.value)}"
    return [
        ("load", f"{_load(status)}; forecast {forecast}"),
        (
            "capacity",
            f"{_value(capacity.capacity, _plain)} ({_value(capacity.serving, _plain)} serving, "
            f"{capacity.capacity_per_replica:g} each, {capacity.capacity_basis})",
        ),
        (
            "required",
            f"{_value(capacity.required, _plain)} (at least {capacity.min_replicas}, at most {capacity.max_replicas})",
        ),
    ]


def _snapshot_lines(status: ClusterStatus) -> list[tuple[str, str]]:
    if isinstance(status.kept_snapshots, Unknown):
        return [("snapshots", f"unknown ({status.kept_snapshots.why})")]
    return [
        (
            "snapshots",
            f"{len(one.snapshots)} of {one.donor} kept since {_clock(one.kept_at)}, {describe(one.gib, 'GiB')}, "
            + (describe(one.usd_per_hour) if isinstance(one.usd_per_hour, Unknown)
               else f"${one.usd_per_hour.value:.4f}/h"),
        )
        for one in status.kept_snapshots
    ]  # fmt: skip


def _alarm_lines(status: ClusterStatus) -> list[tuple[str, RenderableType]]:
    if isinstance(status.alarms, Unknown) or not status.alarms:
        return [("alarms", Text(_alarms_text(status)))]
    return [
        (
            "alarm" if number else "alarms",
            Text(f"{alarm.name} since {_clock(alarm.since)}: {alarm.reason}", style="red"),
        )
        for number, alarm in enumerate(status.alarms)
    ]


def _alarms_text(status: ClusterStatus) -> str:
    if isinstance(status.alarms, Unknown):
        return f"unknown ({status.alarms.why})"
    return ", ".join(alarm.name for alarm in status.alarms) or "none"


def _replicas_text(status: ClusterStatus) -> str:
    serving = _value(status.capacity.serving, _plain)
    return f"{serving} serving, {_value(status.capacity.required, _plain)} required"


def _value(reading: Reading, shown: Callable[[float], str]) -> str:
    return f"unknown ({reading.why})" if isinstance(reading, Unknown) else shown(reading.value)


def _short(reading: Reading, shown: Callable[[float], str]) -> str:
    """Shortens an unknown reading whose reason stands elsewhere."""
    return "unknown" if isinstance(reading, Unknown) else shown(reading.value)


def _plain(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _clock(at: datetime | None) -> str:
    return "?" if at is None else f"{at - timedelta(microseconds=at.microsecond):%d %b %H:%M:%S}"


def _text(value: str | Unknown) -> str:
    return f"unknown ({value.why})" if isinstance(value, Unknown) else value
