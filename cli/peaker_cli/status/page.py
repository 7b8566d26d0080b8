"""The status as a page: how each cluster stands, its replicas, its week, and the run at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.report.run_progress import PrewarmState, RunProgress
from peaker_pages.elements import Node, badge, card, cards, el, facts, note, page, section, table, verdict

from peaker_cli.durations import clock, duration
from peaker_cli.status import verdict as judged
from peaker_cli.status.document import ClusterStatus, ReplicaStatus
from peaker_cli.status.rendering import (
    decision_line,
    few_reads_lines,
    member_line,
    plain_number,
    unknown_lines,
)
from peaker_cli.status.run_at_work import RunStatus
from peaker_cli.status.run_lines import ended_line, progress_line
from peaker_cli.status.week import Week, render_week

_TONES = {0: "good", 1: "warn", 2: "bad", 3: "warn"}
_COLUMNS = ("replica", "role", "zone", "state", "endpoint", "lag", "share of reads")


def render_page(statuses: Sequence[ClusterStatus], weeks: Mapping[str, Week]) -> str:
    """Returns one file without anything to fetch: a cluster, or all of them, the worst first."""
    if len(statuses) == 1:
        return page(f"{statuses[0].cluster} in {statuses[0].environment}", _cluster(statuses[0], weeks))
    parts = [el("article", el("h2", one.cluster, id=one.cluster), _cluster(one, weeks)) for one in statuses]
    return page(f"{len(statuses)} clusters in {statuses[0].environment}", _overview(statuses), parts)


def _overview(statuses: Sequence[ClusterStatus]) -> Element:
    def row(one: ClusterStatus) -> tuple[Node, ...]:
        found, capacity = judged.verdict(one), one.capacity
        sentence = found.troubles[0].sentence if found.troubles else found.last_run
        word = badge(found.word, _TONES[found.exit_status])
        name = el("a", one.cluster, href=f"#{one.cluster}")
        return name, word, _short(capacity.load), _short(capacity.capacity), sentence

    return table(("cluster", "stands", "load", "capacity", "why"), map(row, statuses), ("load", "capacity"))


def _cluster(status: ClusterStatus, weeks: Mapping[str, Week]) -> list[Node]:
    week = weeks.get(status.cluster)
    return [
        note(f"at {clock(status.at)}"),
        *_verdicts(status),
        cards(_cards(status)),
        section("Replicas", *_replicas(status)),
        section("The run at work", *_run(status)),
        section("The week", *render_week(week, status.capacity.capacity_per_replica)) if week else None,
        section("What it rests on", facts(_facts(status))),
    ]


def _verdicts(status: ClusterStatus) -> Iterator[Element]:
    """The worst finding first, with its runbook and the line to type."""
    found = judged.verdict(status)
    if not found.troubles:
        yield verdict(found.word, "good", found.last_run)
    for one in found.troubles:
        runbook, line = el("code", f"docs/runbooks/{one.runbook}.md"), el("code", one.line, class_="type")
        tone = "bad" if one.word in (judged.Word.FAILED, judged.Word.SHORT) else "warn"
        yield verdict(
            one.word, tone, one.sentence, el("p", "Runbook ", runbook, ". Type:", line, class_="do")
        )


def _cards(status: ClusterStatus) -> Iterator[Element]:
    capacity = status.capacity
    load, most = capacity.load, capacity.capacity
    above = isinstance(load, Known) and isinstance(most, Known) and load.value > most.value
    yield _reading_card(
        "load now", load, [("short", "above the capacity") if above else ("", capacity.load_source)]
    )
    ahead = capacity.forecast_for_seconds
    name = f"forecast in {duration(ahead.value)}" if isinstance(ahead, Known) else "forecast"
    yield _reading_card(name, capacity.forecast)
    each = f"{_short(capacity.serving)} serving, {plain_number(capacity.capacity_per_replica)} each"
    yield _reading_card("capacity", most, [("", f"{each}, {capacity.capacity_basis}")])
    limits = f"at least {capacity.min_replicas}, at most {capacity.max_replicas}"
    yield _reading_card("replicas required", capacity.required, [("", limits)])


def _reading_card(name: str, reading: Reading, lines: Sequence[tuple[str, str]] = ()) -> Element:
    why = [("", reading.why)] if isinstance(reading, Unknown) else []
    return card(name, _short(reading), [*why, *lines])


def _replicas(status: ClusterStatus) -> list[Node]:
    if isinstance(status.replicas, Unknown):
        return [note(f"unknown: {status.replicas.why}", "warning")]
    if not status.replicas:
        return [note("There is none.")]
    said = [*unknown_lines(status.replicas), *few_reads_lines(status.replicas)]
    return [table(_COLUMNS, map(_replica, status.replicas), _COLUMNS[5:]), *map(note, said)]


def _replica(one: ReplicaStatus) -> tuple[Node, ...]:
    tone = "warn" if isinstance(one.serves, Unknown) else "good" if one.serves else ""
    return (
        el("code", one.instance_id), one.role, one.zone, one.state.replace("_", " "), badge(one.endpoint, tone),
        _short(one.lag_seconds, lambda value: f"{value:g} s"),
        _short(one.share_of_reads, lambda value: f"{value:.1%}"),
    )  # fmt: skip


def _run(status: ClusterStatus) -> list[Node]:
    run, now = status.run, status.at
    if run is None:
        return [note(f"Nothing is at work; {judged.last_run_line(status.last_run, now)}.")]
    if isinstance(run, Unknown):
        return [note(f"unknown: {run.why}", "warning")]
    return [facts(_run_facts(run, status))]


def _run_facts(run: RunStatus, status: ClusterStatus) -> Iterator[tuple[str, Node]]:
    now = status.at
    yield "run", [el("code", run.run_id), f", {run.operation}"]
    yield "since", clock(run.started_at) if run.started_at else "it has not written its row yet"
    yield "why", run.reason or "started by hand"
    yield "step", ended_line(run, run.ended) if run.ended else progress_line(run.progress, now)
    prewarm = run.progress.prewarm if isinstance(run.progress, RunProgress) else None
    if prewarm is not None and isinstance(prewarm.share, Known):
        yield "prewarm", _prewarm(prewarm, prewarm.share.value)
    if prewarm is not None and prewarm.deadline is not None:
        left = duration(max(0.0, seconds_between(now, prewarm.deadline)))
        yield "gives up", f"{clock(prewarm.deadline)}, in {left}"
    if run.ready_at_by_plan is not None and not run.ended and not run.is_later_than_planned:
        seconds = seconds_between(now, run.ready_at_by_plan)
        late = f"in {duration(seconds)}" if seconds >= 0 else f"{duration(-seconds)} ago"
        yield "ready by plan", f"{clock(run.ready_at_by_plan)}, {late}"
    for one in run.members:
        yield f"member {one.number}", member_line(one, now)
    if isinstance(run.execution, Unknown):
        yield "execution", f"unknown: {run.execution.why}"
    yield "lease until", clock(run.lease_until)


def _prewarm(prewarm: PrewarmState, share: float) -> list[Node]:
    eta = prewarm.eta_seconds
    left = f"unknown, {eta.why}" if isinstance(eta, Unknown) else f"{duration(eta.value)} left"
    bar = el("progress", value=f"{share:.4f}", max=1, aria_label="prewarm")
    return [
        bar,
        f"{share:.0%} of the blocks, time {left}" if isinstance(eta, Unknown) else f"{share:.0%}, {left}",
    ]


def _facts(status: ClusterStatus) -> Iterator[tuple[str, Node]]:
    yield "source", f"unknown: {status.source.why}" if isinstance(status.source, Unknown) else status.source
    yield "last run", judged.last_run_line(status.last_run, status.at).removeprefix("last run ")
    yield "last check", decision_line(status.decision, status.at)
    if isinstance(status.alarms, Unknown):
        yield "alarms", f"unknown: {status.alarms.why}"
    elif not status.alarms:
        yield "alarms", "none"
    else:
        for one in status.alarms:
            yield "alarm", f"{one.name} since {clock(one.since)}: {one.reason}"
    if isinstance(status.kept_snapshots, Unknown):
        yield "snapshots", f"unknown: {status.kept_snapshots.why}"
    else:
        for kept in status.kept_snapshots:
            size, price = _short(kept.gib), _short(kept.usd_per_hour, lambda value: f"${value:.4f} an hour")
            yield (
                "snapshots",
                f"{len(kept.snapshots)} of {kept.donor} since {clock(kept.kept_at)}, {size} GiB, {price}",
            )


def _short(reading: Reading, shown: Callable[[float], str] = plain_number) -> str:
    return "unknown" if isinstance(reading, Unknown) else shown(reading.value)
