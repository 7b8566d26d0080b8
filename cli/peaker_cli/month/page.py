"""The month as a page: what was saved and against what, the load, each peak replica's hours, and the dollars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from xml.etree.ElementTree import Element

from peaker_pages.charts import Segment, Series, TimeAxis, bars, line_chart, thinned
from peaker_pages.elements import card, cards, note, page, section, table, verdict

from peaker_cli.durations import as_usd, clock
from peaker_cli.month.bill import Month
from peaker_cli.month.rows import (
    PEAK_HEAD,
    SUMMARY_HEAD,
    peak_rows,
    savings,
    summary_rows,
    unknown_rows,
)

_CHEAPER = ("setting", "USD", "why")
_NOTE = (
    "Peak dollars are the receipts'. Base replicas are those of now, a stopped one with its volumes alone. Idle "
    "hours are part of the peak's: the load would have fitted on fewer replicas. Always on: the most peak replicas "
    "that ran at one time, from Peaker's first look at the cluster on. Snapshots and Peaker itself are not included."
)


def render_page(month: Month, document: Mapping[str, Any]) -> str:
    """Returns one file without anything to fetch."""
    cheaper = [(one["setting"], as_usd(one["usd"]), one["why"]) for one in document["cheaper"]]
    return page(
        f"{month.cluster}, {month.start:%B %Y}",
        note(f"{clock(document['from'])} to {clock(document['until'])}"),
        verdict("", *savings(document)),
        cards(_cards(document)),
        [note(one) for one in unknown_rows(document)],
        section("Load and what carried it", _load(month)),
        section("When which replica ran", *_replicas(month)),
        section("Where the dollars went", *_dollars(document)),
        section("The sum", table(SUMMARY_HEAD, summary_rows(document), SUMMARY_HEAD[1:])),
        section("Each peak", table(PEAK_HEAD, peak_rows(document), PEAK_HEAD[3:6]))
        if document["peaks"]
        else None,
        section("Cheaper settings", table(_CHEAPER, cheaper, _CHEAPER[1:2])) if cheaper else None,
        note(_NOTE),
    )


def _cards(document: Mapping[str, Any]) -> Iterator[Element]:
    for name in ("base", "peak", "parked"):
        part = document[name]
        yield card(name, as_usd(part["usd"]), [("", f"{part['replica_hours']:,.1f} replica-hours")])
    yield card("in all", as_usd(document["total_usd"]))


def _load(month: Month) -> Element:
    """Draws the load below what base and peak replicas carry; base replicas count from their launch on."""
    marks = {month.start, month.until, *(one.since for one in month.base)}
    marks |= {at for one in month.stretches for at in (one.since, one.until) if at is not None}
    times = sorted(at for at in marks if month.start <= at <= month.until)
    base = [(at, month.capacity * month.base_running(at)) for at in times]
    carried = [(at, below + month.capacity * len(month.running(at))) for at, below in base]
    lines = [
        Series("base and peak carry", "peaker", carried, "step", broken=False),
        Series("base carries", "base", base, "step", broken=False),
        Series("load", "load", thinned(month.load)),
    ]
    return line_chart(
        "The month's load, and what the replicas carried", TimeAxis(month.start, month.until), lines, "load"
    )


def _replicas(month: Month) -> list[Element]:
    """Draws a bar for each peak replica: when it ran, stood parked, or was built in vain."""
    axis = TimeAxis(month.start, month.until)
    found: dict[str, list[tuple[datetime, datetime, str, str]]] = {}
    for ran in month.stretches:
        state = ("short", "failed") if ran.failed else ("peaker", "ran")
        found.setdefault(ran.replica, []).append((ran.since, ran.until or month.until, *state))
    for parked in month.parked:
        found.setdefault(parked.replica, []).append(
            (parked.since, parked.until or month.until, "parked", "parked")
        )
    rows = []
    for name, times in sorted(found.items(), key=lambda one: min(one[1])):
        seen = [one for one in times if one[1] > month.start and one[0] < month.until]
        pieces = [
            Segment(
                axis.at(since),
                axis.at(until) - axis.at(since),
                colour,
                f"{word}, {clock(since)} to {clock(until)}",
            )
            for since, until, colour, word in seen
        ]
        hours = sum(one.hours(month.start, month.until) for one in month.stretches if one.replica == name)
        if pieces:
            rows.append((name, pieces, f"{hours:,.1f} h"))
    if not rows:
        return [note("No peak replica ran.")]
    keys = [("ran", "peaker"), ("parked: its volumes alone", "parked"), ("failed", "short")]
    return [bars(rows, axis.ticks(), keys)]


def _dollars(document: Mapping[str, Any]) -> list[Element]:
    """Draws what was paid beside what always-on replicas would have cost."""
    base, idle, parked = (document[name]["usd"] for name in ("base", "idle", "parked"))
    peak, always = document["peak"]["usd"], document["always_on"]
    if base is None or peak is None or always["usd"] is None:
        return [note("A price is unknown, so nothing is added up.")]
    paid = [("base", base, "base"), ("peak, needed", peak - (idle or 0.0), "peaker"),
            ("peak, idle", idle or 0.0, "reactive"), ("parked", parked or 0.0, "parked")]  # fmt: skip
    other = [("base", base, "base"), (f"{always['peak_replicas']} always on", always["usd"], "always")]
    sums = [sum(usd for _, usd, _ in parts) for parts in (paid, other)]
    most = max(*sums, 0.01)
    rows = []
    for name, parts, whole in (("paid", paid, sums[0]), ("with the peak always on", other, sums[1])):
        pieces, left = [], 0.0
        for word, usd, colour in parts:
            width = 100 * max(0.0, usd) / most
            pieces.append(Segment(left, width, colour, f"{word} {as_usd(usd)}"))
            left += width
        rows.append((name, [one for one in pieces if one.width > 0], as_usd(whole)))
    keys = [(f"{word} {as_usd(usd)}", colour) for word, usd, colour in [*paid, other[1]]]
    return [bars(rows, keys=keys)]
