"""The month as a page: figures, and two pictures of where the hours and the dollars went."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from matplotlib.dates import ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from peaker_cli.durations import clock
from peaker_cli.month.bill import Month
from peaker_cli.month.rows import PEAK_HEAD, as_usd, peak_rows, summary_rows, unknown_rows

_BASE, _PEAK, _IDLE, _PARKED, _ALWAYS, _LOAD = (
    "#5b6b7a",
    "#12805c",
    "#c07a12",
    "#4c8bd6",
    "#b9c2cb",
    "#17212b",
)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 24px auto; padding: 0 16px; color: #17212b }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td, th { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid #d9e0e6 }
td.n, th.n { text-align: right }
svg { width: 100%; height: auto }
h1 { font-size: 23px } h2 { font-size: 17px } p.note { color: #5b6b7a; font-size: 13px }
"""
_NOTE = (
    "Peak dollars are the receipts'. Base replicas are those that run now. Idle hours are part of the peak's: the load "
    "would have fitted on fewer replicas. Always on: the month's most peak replicas, all month long."
)


def render_page(month: Month, document: dict[str, Any]) -> str:
    """Returns one file without anything to fetch."""
    title = f"{month.cluster}, {month.start:%B %Y}"
    cheaper = [(one["setting"], as_usd(one["usd"]), one["why"]) for one in document["cheaper"]]
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="note">{clock(document["from"])} to {clock(document["until"])}</p>',
        _table(("", "replica-hours", "USD"), summary_rows(document)),
        *(f'<p class="note">{html.escape(one)}</p>' for one in unknown_rows(document)),
        "<h2>When what ran</h2>",
        _svg(timeline(month)),
        "<h2>Where the dollars went</h2>",
        _svg(dollars(document)),
        "<h2>Each peak</h2>",
        _table(PEAK_HEAD, peak_rows(document)),
        "<h2>What a cheaper setting would have saved</h2>",
        _table(("setting", "USD", "why"), cheaper)
        if cheaper
        else "<p>nothing that the month's figures show</p>",
        f'<p class="note">{html.escape(_NOTE)}</p>',
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def timeline(month: Month) -> Figure:
    """Returns the load over what base and peak replicas carry, and below it each peak replica's stretches."""
    names = sorted({one.replica for one in month.stretches} | {one.replica for one in month.parked})
    figure = Figure(figsize=(10.5, 3.4 + 0.28 * len(names)), layout="constrained")
    load, bars = figure.subplots(2, 1, sharex=True, height_ratios=(3, 0.4 + 0.4 * max(1, len(names))))
    marks = _marks(month)
    base, span = month.capacity * len(month.base), _days((month.start, month.until))
    carried = [base + month.capacity * len(month.running(at)) for at in marks]
    load.fill_between(
        _days(marks), base, carried, step="post", color=_PEAK, alpha=0.4, linewidth=0, label="peak carries"
    )
    load.fill_between(span, [base, base], color=_BASE, alpha=0.35, linewidth=0, label="base carries")
    if month.load:
        days, values = _days([at for at, _ in month.load]), [value for _, value in month.load]
        load.plot(days, values, color=_LOAD, linewidth=0.7, label="load")
    load.set_ylabel("load")
    load.set_ylim(0, 1.15 * max([base, *carried, *(value for _, value in month.load)]) + 1)
    load.legend(loc="upper left", ncols=3, fontsize=8, frameon=False)
    for row, name in enumerate(names):
        for one in month.stretches:
            if one.replica == name:
                colour = "#cf2a2a" if one.failed else _PEAK
                _bar(
                    bars, row, max(one.since, month.start), min(one.until or month.until, month.until), colour
                )
        for parked in month.parked:
            if parked.replica == name:
                _bar(
                    bars,
                    row,
                    max(parked.since, month.start),
                    min(parked.until or month.until, month.until),
                    _PARKED,
                )
    bars.set_yticks(range(len(names)), names, fontsize=7)
    bars.set_ylim(len(names) - 0.4, -0.6)
    bars.set_xlim(*span)
    bars.set_xlabel("green: runs; blue: parked; red: failed")
    bars.xaxis.set_major_formatter(ConciseDateFormatter(bars.xaxis.get_major_locator()))
    return figure


def dollars(document: dict[str, Any]) -> Figure:
    """Draws the dollars paid beside the price of always-on replicas."""
    figure = Figure(figsize=(10.5, 1.9), layout="constrained")
    axes = figure.subplots()
    base = document["base"]["usd"] or 0.0
    idle = document["idle"]["usd"] or 0.0
    parts = [("base", base, _BASE), ("peak, needed", max(0.0, (document["peak"]["usd"] or 0.0) - idle), _PEAK),
             ("peak, idle", idle, _IDLE), ("parked", document["parked"]["usd"] or 0.0, _PARKED)]  # fmt: skip
    left = 0.0
    for name, amount, colour in parts:
        axes.barh(0, amount, left=left, color=colour, label=f"{name} ${amount:.2f}")
        left += amount
    always = document["always_on"]["usd"] or 0.0
    axes.barh(1, base, color=_BASE)
    axes.barh(1, always, left=base, color=_ALWAYS, label=f"always on ${always:.2f}")
    axes.set_yticks([0, 1], ["paid", "always on"])
    axes.set_ylim(1.6, -0.6)
    axes.set_xlabel("USD")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=5, fontsize=8, frameon=False)
    return figure


def _marks(month: Month) -> list[datetime]:
    """Returns the times within the month at which the number of running replicas changes."""
    changes = {month.start, month.until}
    for one in month.stretches:
        changes |= {
            at for at in (one.since, one.until) if at is not None and month.start <= at <= month.until
        }
    return sorted(changes)


def _days(instants: Sequence[datetime]) -> list[float]:
    return [float(date2num(at)) for at in instants]


def _bar(axes: Any, row: int, since: datetime, until: datetime, colour: str) -> None:
    first, last = _days((since, until))
    if last > first:
        axes.barh(row, last - first, left=first, height=0.62, color=colour)


def _svg(figure: Figure) -> str:
    """Returns the picture as an element of a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of figures are to the right."""
    number = [all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    mark = [' class="n"' if one else "" for one in number]
    top = "".join(f"<th{css}>{html.escape(cell)}</th>" for css, cell in zip(mark, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{css}>{html.escape(cell)}</td>" for css, cell in zip(mark, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def _is_number(text: str) -> bool:
    return text in ("", "unknown") or text.lstrip("$").replace(",", "").replace(".", "", 1).isdigit()
