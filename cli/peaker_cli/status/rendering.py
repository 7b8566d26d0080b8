"""A status for a person: a panel for one cluster, a line each for all, and the line that a watch appends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from peaker_cli.status.run_at_work import (
    MemberStatus,
    describe_as,
    ended_line,
    progress_line,
    run_line,
)
from peaker_cli.status.verdict import last_run_line, verdict, worst_first

# A name, what is known, and its colour on a terminal.
Fact = tuple[str, str, str]


def render_status(status: ClusterStatus) -> RenderableType:
    found = verdict(status)
    first = Text(found.first_line, style="bold red" if found.exit_status > 1 else "bold")
    return Group(first, render_facts(status))


def render_facts(status: ClusterStatus) -> RenderableType:
    """What stands below the first line: further troubles, replicas, the run at work, capacity, decision, alarms."""
    facts = [
        *source_facts(status), *run_facts(status), *_waits(status), *_capacity_lines(status), *check_facts(status)
    ]  # fmt: skip
    table = facts_of((name, Text(told, style=style)) for name, told, style in facts)
    also = [Text(one.text, style="yellow") for one in verdict(status).troubles[1:]]
    title = f"\n{status.cluster} in {status.environment} at {clock(status.at)}"
    return Group(*also, Text(title, style="bold"), _replica_table(status), Text(), table)


def source_facts(status: ClusterStatus) -> Iterator[Fact]:
    source = f"unknown ({status.source.why})" if isinstance(status.source, Unknown) else status.source
    yield "source", source, ""
    yield "last run", last_run_line(status.last_run, status.at).removeprefix("last run "), ""


def check_facts(status: ClusterStatus) -> Iterator[Fact]:
    """The newest check, kept snapshots, alarms."""
    yield "last check", decision_line(status.decision, status.at), ""
    if isinstance(status.kept_snapshots, Unknown):
        yield "snapshots", f"unknown ({status.kept_snapshots.why})", ""
    else:
        for kept in status.kept_snapshots:
            size, price = (
                describe(kept.gib, "GiB"),
                describe_as(kept.usd_per_hour, lambda usd: f"${usd:.4f}/h"),
            )
            since = f"{len(kept.snapshots)} of {kept.donor} kept since {clock(kept.kept_at)}"
            yield "snapshots", f"{since}, {size}, {price}", ""
    if isinstance(status.alarms, Unknown):
        yield "alarms", f"unknown ({status.alarms.why})", ""
    elif not status.alarms:
        yield "alarms", "none", ""
    else:
        for one in status.alarms:
            yield "alarm", f"{one.name} since {clock(one.since)}: {one.reason}", "red"


def _waits(status: ClusterStatus) -> Iterator[Fact]:
    if (waits := status.addition) is not None:
        yield "waits", f"an addition, since {clock(waits.since)}, for the lease of {waits.lease_of}", "yellow"


def render_overview(statuses: Sequence[ClusterStatus]) -> RenderableType:
    """One line per cluster, the worst first."""
    rows = (
        (
            one.cluster,
            short(one.capacity.load),
            short(one.capacity.capacity),
            verdict(one).first_line,
        )
        for one in worst_first(statuses)
    )
    return table_of(("cluster", "load", "capacity", "how it stands"), rows, whole=("cluster",))


def status_line(status: ClusterStatus) -> str:
    """The status in one line, for a watch whose output is no terminal."""
    return f"{clock(status.at)} {status.cluster}: {verdict(status).first_line}"


def decision_line(decision: DecisionStatus | Unknown, now: datetime) -> str:
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
    table = table_of(columns, map(replica_row, status.replicas), whole=("replica",))
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


def replica_row(one: ReplicaStatus) -> tuple[str, ...]:
    return (
        one.instance_id,
        one.role,
        one.zone,
        one.state.replace("_", " "),
        one.endpoint.partition(" (")[0],
        short(one.lag_seconds, lambda value: f"{value:g} s"),
        short(one.share_of_reads, lambda value: f"{value:.1%}"),
    )


def run_facts(status: ClusterStatus) -> Iterator[Fact]:
    """The run at work: since when and why, its step, its deadline, its members, and when it is ready by its plan."""
    run, now = status.run, status.at
    if run is None or isinstance(run, Unknown):
        yield "at work", run_line(run, now), ""
        return
    started = f" since {clock(run.started_at)}" if run.started_at else ""
    yield "at work", f"{run.operation} {run.run_id}{started}, {run.reason or 'started by hand'}", ""
    if run.ended:
        yield "ended", ended_line(run, run.ended), "red"
    else:
        unknown = f"; execution unknown ({run.execution.why})" if isinstance(run.execution, Unknown) else ""
        yield "step", progress_line(run.progress, now).removeprefix("step ") + unknown, ""
    prewarm = run.progress.prewarm if isinstance(run.progress, RunProgress) else None
    if prewarm is not None and prewarm.deadline is not None:
        left = duration(max(0.0, seconds_between(now, prewarm.deadline)))
        yield "deadline", f"{clock(prewarm.deadline)} (in {left}; then it fails)", ""
    for one in run.members:
        yield f"member {one.number}", member_line(one, now), ""
    if run.ready_at_by_plan is not None and not run.ended and not run.is_later_than_planned:
        yield "ready by plan", clock(run.ready_at_by_plan), ""


def member_line(member: MemberStatus, now: datetime) -> str:
    """`build, LaunchReplica for 40.0 s`, or where it stands once it has ended."""
    if member.state == "at_work":
        return f"{member.method}, {progress_line(member.progress, now)}"
    return f"{member.method}, {member.state.replace('_', ' ')}"


def _load(status: ClusterStatus) -> str:
    load, source = status.capacity.load, status.capacity.load_source
    if isinstance(load, Unknown) or load.measured_at is None:
        return f"{describe_as(load, plain_number)} ({source})"
    return (
        f"{plain_number(load.value)} ({source}, {duration(seconds_between(load.measured_at, status.at))} old)"
    )


def _capacity_lines(status: ClusterStatus) -> Iterator[Fact]:
    capacity = status.capacity
    required = describe_as(capacity.required, plain_number)
    forecast = describe_as(capacity.forecast, plain_number)
    if isinstance(capacity.forecast, Known) and isinstance(capacity.forecast_for_seconds, Known):
        forecast += f" in {duration(capacity.forecast_for_seconds.value)}"
    yield "load", f"{_load(status)}; forecast {forecast}", ""
    each = f"{capacity.capacity_per_replica:g} each, {capacity.capacity_basis}"
    serving = describe_as(capacity.serving, plain_number)
    yield "capacity", f"{describe_as(capacity.capacity, plain_number)} ({serving} serving, {each})", ""
    yield "required", f"{required} (at least {capacity.min_replicas}, at most {capacity.max_replicas})", ""


def plain_number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def short(reading: Reading, shown: Callable[[float], str] = plain_number) -> str:
    """Shortens an unknown reading whose reason stands elsewhere."""
    return "unknown" if isinstance(reading, Unknown) else shown(reading.value)
