"""The backtest as one HTML page that needs nothing else: figures, the course over time, tables, decisions."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peaker_backtest.console import POLICY_COLUMNS, table_policies
from peaker_backtest.document import course
from peaker_backtest.errors import shown
from peaker_backtest.replay.trials import Answer
from peaker_backtest.report import BacktestReport, iso_at
from peaker_backtest.verdict import (
    GLOSSARY,
    SETTINGS_COLUMNS,
    advice_on_settings,
    answer,
    assumptions,
    compared_days,
    notes,
    savings,
    table_settings,
    weighing,
)

_TEMPLATE = Path(__file__).with_name("page.html")
_SHOWN_DECISIONS = 200
_TONES = {Answer.PAYS: "good", Answer.DOES_NOT_PAY: "bad"}


def render_page(report: BacktestReport) -> str:
    """Returns the whole page as text. What comes from the input is escaped wherever it stands."""
    policies = (
        "Policies on the compared days" if report.worth else "Policies on the replayed days (no comparison)"
    )
    parts = {
        "TITLE": html.escape(f"Peaker backtest: {shown(report.source)}"),
        "READ": "".join(f'<p class="read">{html.escape(text)}</p>' for text in report.read),
        "VERDICT": html.escape(answer(report)),
        "TONE": "" if report.worth is None else _TONES.get(report.worth.answer, ""),
        "COMPARED": _compared(report),
        "WARNINGS": "".join(f'<p class="warning">{html.escape(text)}</p>' for text in report.warnings),
        "CARDS": "".join(_cards(report)),
        "NOTES": "".join(f"<p>{html.escape(text)}</p>" for text in notes(report)),
        "POLICIES_TITLE": html.escape(policies),
        "POLICIES": _table(POLICY_COLUMNS, table_policies(report)),
        "SETTINGS": _settings(report),
        "ASSUMPTIONS": "".join(f"<li>{html.escape(text)}</li>" for text in assumptions(report)),
        "GLOSSARY": "".join(
            f"<dt>{html.escape(word)}</dt><dd>{html.escape(text)}</dd>" for word, text in GLOSSARY
        ),
        "DECISIONS": _decisions(report),
        # A "<" inside a script could end it or open a comment; JSON knows another way to write it.
        "DATA": json.dumps(_course(report), separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = _TEMPLATE.read_text(encoding="utf-8")
    # In one pass, so that text from the input that looks like a placeholder stays text.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda found: parts[found[1]], page)


def _settings(report: BacktestReport) -> str:
    """Returns the section on other settings, with its heading; nothing where none were tried."""
    said = advice_on_settings(report)
    if not said:
        return ""
    rows = table_settings(report)
    table = _table(SETTINGS_COLUMNS, rows) if rows else ""
    return (
        "<h2>Settings: cost against shortage</h2>"
        + "".join(f"<p>{html.escape(text)}</p>" for text in said)
        + table
    )


def _compared(report: BacktestReport) -> str:
    if report.worth is None:
        return ""
    said = " ".join([*savings(report), f"{compared_days(report)}.", weighing(report)])
    return f'<p class="span">{html.escape(said)}</p>'


def _cards(report: BacktestReport) -> Iterable[str]:
    """Returns a card for each policy: dollars where the price is known, shortage in red, and Peaker against it."""
    if report.worth is None:
        return
    peaker = report.peaker.compared
    for one in report.compared:
        figures = one.compared
        hours = f"{figures.replica_hours:,.0f} replica-hours"
        dollars = report.dollars(figures.replica_hours)
        short = f"short {_duration(figures.short_minutes)} ({figures.short_share:.1%} of the time)"
        lines = [("", hours)] if dollars is not None else []
        lines.append(("short", short) if figures.short_minutes > 0 else ("", "never short"))
        lines.append(("", f"weighted {report.weighted(one):,.0f}"))
        if one is not report.peaker:
            percent = _percent(peaker.replica_hours, figures.replica_hours)
            less = _percent(report.weighted(report.peaker), report.weighted(one))
            lines.append(("", f"Peaker against it: cost {percent}, weighted {less}"))
        yield _card(one.name, hours if dollars is None else f"${dollars:,.0f}", lines)


def _card(title: str, value: str, lines: Iterable[tuple[str, str]]) -> str:
    """lines: (class, text) of each."""
    notes = "".join(f'<p class="{kind}">{html.escape(text)}</p>' for kind, text in lines)
    return (
        f'<div class="card"><h3>{html.escape(title)}</h3><p class="big">{html.escape(value)}</p>{notes}</div>'
    )


def _duration(minutes: float) -> str:
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.0f} h"


def _decisions(report: BacktestReport) -> str:
    events = report.peaker.events
    rows = [
        [iso_at(report.scenario, event.step + 1), event.action, str(event.replicas), event.reason]
        for event in events[-_SHOWN_DECISIONS:]
    ]
    more = len(events) - len(rows)
    note = f"<p>{more:,} earlier ones are in the JSON.</p>" if more > 0 else ""
    return note + _table(["at (UTC)", "decision", "replicas", "reason"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in a box that scrolls; on a narrow screen each row is a list of its columns' names and values."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{html.escape(name)}">{html.escape(cell)}</td>'
            for name, cell in zip(head, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _course(report: BacktestReport) -> dict[str, Any]:
    """Returns the chart's data; load and required replicas are those of the JSON document, unrounded."""
    scenario = report.scenario
    rival = report.best_reactive
    every = course(report, (report.peaker, rival, report.static_peak))
    return {
        "start": every["start"],
        "step": scenario.step_seconds,
        "compared": every["compared_from_step"],
        "capacity": scenario.capacity_per_replica,
        "unit": report.load_unit,
        "load": every["load"],
        "required": every["required"],
        "p50": _rounded(report.lead_p50),
        "p95": _rounded(report.lead_p95),
        "peaker": report.peaker.serving.tolist(),
        "peaker_paid": report.peaker.paid.tolist(),
        "reactive": rival.serving.tolist(),
        "reactive_paid": rival.paid.tolist(),
        "reactive_name": rival.name,
        "static": int(report.static_peak.serving[-1]),
        "events": [
            [event.step + 1 - scenario.first, event.action, event.replicas, event.reason]
            for event in report.peaker.events
        ],
    }


def _rounded(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def _percent(part: float, whole: float) -> str:
    return "n/a" if whole <= 0 else f"{part / whole - 1:+.0%}"
