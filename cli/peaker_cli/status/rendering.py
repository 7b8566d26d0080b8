"""A status for a person: a panel for one cluster, a line each for all, and the line that a watch appends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from peaker.domain.instants import seconds_between
from peaker.domain.planning.taken_reads import WHOLE_SHARE
from peaker.domain.reading import Known, Reading, Unknown, describe
from peaker.domain.report.run_progress import RunProgress
from rich.console import Group, RenderableType
from rich.text import Text

from peaker_cli.durations import clock, duration
from peaker_cli.printing import facts_of, table_of
from peaker_cli.status.document import ClusterStatus, DecisionStatus, ReplicaStatus
from peaker_cli.status.run_at_work import MemberStatus, RunStatus
from peaker_cli.status.run_lines import describe_as, ended_line, progress_line, run_line
from peaker_cli.status.verdict import last_run_line, verdict, worst_first


def render_status(status: ClusterStatus) -> RenderableType:
    """One cluster: the verdict, then what it rests on."""
    found = verdict(status)
    first = Text(found.first_line, style="bold red" if found.exit_status > 1 else "bold")
    return Group(first, render_facts(status))


def render_facts(status: ClusterStatus) -> RenderableType:
    """What stands below the first line: further troubles, replicas, the run at work, capacity, decision, alarms."""
    source = f"unknown ({status.source.why})" if isinstance(status.source, Unknown) else status.source
    lines: list[tuple[str, RenderableType]] = [
        ("source", source),
        ("last run", last_run_line(status.last_run, status.at).removeprefix("last run ")),
        *_run_lines(status),
    ]
    if status.addition is not None:
        waiting = (
            f"an addition, since {clock(status.addition.since)}, for the lease of {status.addition.lease_of}"
        )
        lines.append(("waits", Text(waiting, style="yellow")))
    lines += [*_capacity_lines(status), ("last check", decision_line(status.decision, status.at))]
    lines += [*_snapshot_lines(status), *_alarm_lines(status)]
    table = facts_of(lines)
    also = [Text(one.text, style="yellow") for one in verdict(status).troubles[1:]]
    title = f"\n{status.cluster} in {status.environment} at {clock(status.at)}"
    return Group(*also, Text(title, style="bold"), _replica_table(status), Text(), table)


def render_overview(statuses: Sequence[ClusterStatus]) -> RenderableType:
    """One line per cluster, the worst first."""
    rows = (
        (
            one.cluster,
            _short(one.capacity.load, plain_number),
            _short(one.capacity.capacity, plain_number),
            verdict(one).first_line,
        )
        for one in worst_first(statuses)
    )
    return table_of(("cluster", "load", "capacity", "how it stands"), rows, whole=("cluster",))


def status_line(status: ClusterStatus) -> str:
    """The status in one line, for a watch whose output is no terminal."""
    return f"{clock(status.at)} {status.cluster}: {verdict(status).first_line}"


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
    if not status.replicas:
        return Text("replicas: none")
    columns = ("replica", "role", "zone", "state", "endpoint", "lag", "reads")
    table = table_of(columns, map(_replica_row, status.replicas), whole=("replica",))
    lines = [*unknown_lines(status.replicas), *few_reads_lines(status.replicas)]
    return Group(table, *(Text(line, style="yellow") for line in lines))


def few_reads_lines(replicas: Sequence[ReplicaStatus]) -> list[str]:
    """Which replicas take few of the reads, and what they count as; of the others there is nothing to say."""
    return [
        f"{one.instance_id} takes {one.share_of_a_peer.value:.0%} of a peer's reads"
        + (", and counts as that (docs/read-endpoint.md, Clients)" if one.counts_less else "")
        for one in replicas
        if isinstance(one.share_of_a_peer, Known) and one.share_of_a_peer.value < WHOLE_SHARE
    ]


def unknown_lines(replicas: Sequence[ReplicaStatus]) -> list[str]:
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
    started = f" since {clock(run.started_at)}" if run.started_at else ""
    head = f"{run.operation} {run.run_id}{started}, {run.reason or 'started by hand'}"
    lines: list[tuple[str, RenderableType]] = [
        ("at work", Text(head)),
        _step_line(run, status.at),
    ]
    prewarm = run.progress.prewarm if isinstance(run.progress, RunProgress) else None
    if prewarm is not None and prewarm.deadline is not None:
        left = duration(max(0.0, seconds_between(status.at, prewarm.deadline)))
        lines.append(("deadline", Text(f"{clock(prewarm.deadline)} (in {left}); then it fails")))
    lines += [(f"member {one.number}", Text(member_line(one, status.at))) for one in run.members]
    if run.ready_at_by_plan is not None and not run.ended and not run.is_later_than_planned:
        lines.append(("ready by plan", Text(clock(run.ready_at_by_plan))))
    return lines


def member_line(member: MemberStatus, now: datetime) -> str:
    """`build, LaunchReplica for 40.0 s`, or where it stands once it has ended."""
    if member.state == "at_work":
        return f"{member.method}, {progress_line(member.progress, now)}"
    return f"{member.method}, {member.state.replace('_', ' ')}"


def _step_line(run: RunStatus, now: datetime) -> tuple[str, RenderableType]:
    if run.ended:
        return ("ended", Text(ended_line(run, run.ended), style="red"))
    unknown = f"; execution unknown ({run.execution.why})" if isinstance(run.execution, Unknown) else ""
    return ("step", Text(progress_line(run.progress, now).removeprefix("step ") + unknown))


def _load(status: ClusterStatus) -> str:
    """The load with its source and its age."""
    load, source = status.capacity.load, status.capacity.load_source
    if isinstance(load, Unknown) or load.measured_at is None:
        return f"{describe_as(load, plain_number)} ({source})"
    return (
        f"{plain_number(load.value)} ({source}, {duration(seconds_between(load.measured_at, status.at))} old)"
    )


def _capacity_lines(status: ClusterStatus) -> list[tuple[str, str]]:
    capacity = status.capacity
    required = describe_as(capacity.required, plain_number)
    forecast = describe_as(capacity.forecast, plain_number)
    if isinstance(capacity.forecast, Known) and isinstance(capacity.forecast_for_seconds, Known):
        forecast += f" in {duration(capacity.forecast_for_seconds.value)}"
    return [
        ("load", f"{_load(status)}; forecast {forecast}"),
        (
            "capacity",
            f"{describe_as(capacity.capacity, plain_number)} ({describe_as(capacity.serving, plain_number)} serving, "
            f"{capacity.capacity_per_replica:g} each, {capacity.capacity_basis})",
        ),
        ("required", f"{required} (at least {capacity.min_replicas}, at most {capacity.max_replicas})"),
    ]


def _snapshot_lines(status: ClusterStatus) -> list[tuple[str, str]]:
    if isinstance(status.kept_snapshots, Unknown):
        return [("snapshots", f"unknown ({status.kept_snapshots.why})")]
    return [
        (
            "snapshots",
            f"{len(one.snapshots)} of {one.donor} kept since {clock(one.kept_at)}, {describe(one.gib, 'GiB')}, "
            + (describe(one.usd_per_hour) if isinstance(one.usd_per_hour, Unknown)
               else f"${one.usd_per_hour.value:.4f}/h"),
        )
        for one in status.kept_snapshots
    ]  # fmt: skip


def _alarm_lines(status: ClusterStatus) -> list[tuple[str, RenderableType]]:
    if isinstance(status.alarms, Unknown):
        return [("alarms", Text(f"unknown ({status.alarms.why})"))]
    told = (Text(f"{one.name} since {clock(one.since)}: {one.reason}", style="red") for one in status.alarms)
    return [("alarm", one) for one in told] or [("alarms", Text("none"))]


def _short(reading: Reading, shown: Callable[[float], str]) -> str:
    """Shortens an unknown reading whose reason stands elsewhere."""
    return "unknown" if isinstance(reading, Unknown) else shown(reading.value)


def plain_number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
