"""The backtest as one HTML page that needs nothing else: figures, the course over time, tables, decisions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
from peaker_pages.charts import legend
from peaker_pages.elements import card, cards, el, note, page, section, table, verdict

from peaker_backtest.console import POLICY_COLUMNS, table_policies, title_of_policies
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

_SCRIPT = Path(__file__).with_name("course.js")
_SHOWN_DECISIONS = 200
_TONES = {Answer.PAYS: "good", Answer.DOES_NOT_PAY: "bad"}


def render_page(report: BacktestReport) -> str:
    """Returns the whole page as text. What comes from the input is escaped wherever it stands."""
    said = advice_on_settings(report)
    tried = table_settings(report)
    # A "<" inside a script could end it or open a comment; JSON knows another way to write it.
    data = json.dumps(_course(report), separators=(",", ":")).replace("<", "\\u003c")
    return page(
        f"Peaker backtest: {shown(report.source)}",
        map(note, report.read),
        _verdict(report),
        (note(text, "warning") for text in report.warnings),
        cards(_cards(report)),
        (el("p", text) for text in notes(report)),
        section("Load, forecast and capacity", _panel(report)),
        section(title_of_policies(report), table(POLICY_COLUMNS, table_policies(report), POLICY_COLUMNS[1:])),
        section(
            "Settings: cost against shortage",
            *(el("p", text) for text in said),
            table(SETTINGS_COLUMNS, tried, SETTINGS_COLUMNS[1:]) if tried else None,
        )
        if said
        else None,
        section(
            "What it rests on", el("ul", (el("li", text) for text in assumptions(report)), class_="notes")
        ),
        section(
            "Words and units",
            el("dl", ([el("dt", word), el("dd", text)] for word, text in GLOSSARY), class_="words"),
        ),
        el("details", el("summary", "Decisions"), _decisions(report)),
        el("script", data, id="data", type="application/json"),
        script=_SCRIPT.read_text(encoding="utf-8"),
    )


def _verdict(report: BacktestReport) -> Element:
    if report.worth is None:
        return verdict("", "", answer(report))
    said = " ".join([*savings(report), f"{compared_days(report)}.", weighing(report)])
    return verdict("", _TONES.get(report.worth.answer, ""), answer(report), el("p", said, class_="do"))


def _panel(report: BacktestReport) -> Element:
    """Returns the place of the chart, which the page's script draws."""
    keys = [
        ("load", "load", False),
        ("forecast one lead time before, p50 to p95", "band", True),
        ("capacity in service", "peaker", False),
        ("short", "short", True),
        (f"replicas, {report.best_reactive.name}", "reactive", False),
    ]
    if course(report, ())["compared_from_step"]:
        keys.append(("warm-up, not compared", "soft", True))
    label = "Load, forecast band and capacity over time"
    return el(
        "div",
        el("div", el("span", id="views"), legend(keys), class_="bar"),
        el("svg", id="chart", role="img", aria_label=label),
        el("div", "Drag over the chart to look closer.", id="read"),
        class_="panel",
    )


def _cards(report: BacktestReport) -> Iterable[Element]:
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
        yield card(one.name, hours if dollars is None else f"${dollars:,.0f}", lines)


def _duration(minutes: float) -> str:
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.0f} h"


def _decisions(report: BacktestReport) -> list[Element | None]:
    events = report.peaker.events
    rows = [
        (iso_at(report.scenario, event.step + 1), event.action, str(event.replicas), event.reason)
        for event in events[-_SHOWN_DECISIONS:]
    ]
    more = len(events) - len(rows)
    earlier = el("p", f"{more:,} earlier ones are in the JSON.") if more > 0 else None
    return [earlier, table(("at (UTC)", "decision", "replicas", "reason"), rows, ("replicas",))]


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
