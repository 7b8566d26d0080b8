"""The status as a page: how each cluster stands, its replicas, its week, and the run at work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element

from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.report.run_progress import RunProgress
from peaker_pages.elements import Node, badge, card, cards, el, facts, note, page, section, table, verdict

from peaker_cli.durations import clock, duration
from peaker_cli.status import verdict as judged
from peaker_cli.status.document import ClusterStatus, ReplicaStatus
from peaker_cli.status.rendering import (
    Fact,
    check_facts,
    few_reads_lines,
    plain_number,
    replica_row,
    run_facts,
    short,
    source_facts,
    unknown_lines,
)
from peaker_cli.status.run_at_work import RunStatus
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
        return name, word, short(capacity.load), short(capacity.capacity), sentence

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
        section("What it rests on", _facts([*source_facts(status), *check_facts(status)])),
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
    each = f"{short(capacity.serving)} serving, {plain_number(capacity.capacity_per_replica)} each"
    yield _reading_card("capacity", most, [("", f"{each}, {capacity.capacity_basis}")])
    limits = f"at least {capacity.min_replicas}, at most {capacity.max_replicas}"
    yield _reading_card("replicas required", capacity.required, [("", limits)])


def _reading_card(name: str, reading: Reading, lines: Sequence[tuple[str, str]] = ()) -> Element:
    why = [("", reading.why)] if isinstance(reading, Unknown) else []
    return card(name, short(reading), [*why, *lines])


def _replicas(status: ClusterStatus) -> list[Node]:
    if isinstance(status.replicas, Unknown):
        return [note(f"unknown: {status.replicas.why}", "warning")]
    if not status.replicas:
        return [note("There is none.")]
    said = [*unknown_lines(status.replicas), *few_reads_lines(status.replicas)]
    return [table(_COLUMNS, map(_replica, status.replicas), _COLUMNS[5:]), *map(note, said)]


def _replica(one: ReplicaStatus) -> tuple[Node, ...]:
    tone = "warn" if isinstance(one.serves, Unknown) else "good" if one.serves else ""
    name, role, zone, state, endpoint, *figures = replica_row(one)
    return el("code", name), role, zone, state, badge(endpoint, tone), *figures


def _run(status: ClusterStatus) -> list[Node]:
    run = status.run
    if run is None:
        return [note(f"Nothing is at work; {judged.last_run_line(status.last_run, status.at)}.")]
    progress = run.progress if isinstance(run, RunStatus) else None
    share = progress.prewarm.share if isinstance(progress, RunProgress) and progress.prewarm else None
    bar = None
    if isinstance(share, Known):
        bar = el("progress", value=f"{share.value:.4f}", max=1, aria_label="prewarm")
    lease = [("lease until", clock(run.lease_until), "")] if isinstance(run, RunStatus) else []
    return [_facts([*run_facts(status), *lease]), bar]


def _facts(lines: Iterable[Fact]) -> Element:
    return facts((name, told) for name, told, _ in lines)
