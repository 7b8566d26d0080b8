"""The backtest as one HTML page that needs nothing else: figures, the course over time, tables, decisions."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peaker_cli.backtest_report import BacktestReport, as_document, iso_at, verdict

_TEMPLATE = Path(__file__).with_name("backtest_page.html")
_SHOWN_DECISIONS = 200


def render_page(report: BacktestReport) -> str:
    """The whole page as text."""
    parts = {
        "TITLE": html.escape(f"Peaker backtest: {report.source}"),
        "SPAN": html.escape(_span(report)),
        "VERDICT": html.escape(verdict(report)),
        "WARNINGS": "".join(f'<p class="warning">{html.escape(text)}</p>' for text in report.warnings),
        "CARDS": "".join(_cards(report)),
        "POLICIES": _policies(report),
        "ACCURACY": _accuracy(report),
        "DECISIONS": _decisions(report),
        "DATA": json.dumps(_course(report), separators=(",", ":")).replace("</", "<\\/"),
    }
    page = _TEMPLATE.read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _span(report: BacktestReport) -> str:
    scenario = report.scenario
    days = (scenario.last - scenario.first) * scenario.step_seconds / 86_400
    return (
        f"{iso_at(scenario, scenario.first)} to {iso_at(scenario, scenario.last)} ({days:.0f} days, UTC). "
        f"Lead time {scenario.lead_seconds / 60:.0f} min, {scenario.capacity_per_replica:g} load units per replica, "
        f"p{scenario.quantile * 100:g} of the forecast is served, {scenario.min_replicas} to "
        f"{scenario.max_replicas} replicas."
    )


def _cards(report: BacktestReport) -> Iterable[str]:
    document = as_document(report)
    peaker, reactive, _, static, oracle = document["policies"]
    yield _card(
        "Short of capacity", _duration(peaker["short_minutes"]), f"{peaker['short_share']:.2%} of the time"
    )
    yield _card(
        "Reactive, same cost",
        _duration(report.reactive_minutes_at_equal_cost),
        f"{report.reactive_short_at_equal_cost:.2%} of the time short",
    )
    yield _card(
        "Replica-hours",
        f"{peaker['replica_hours']:,.0f}",
        f"{_percent(peaker['replica_hours'], static['replica_hours'])} against a static peak, "
        f"{_percent(peaker['replica_hours'], oracle['replica_hours'])} against an oracle",
    )
    if peaker["dollars"] is not None:
        yield _card(
            "Cost",
            f"${peaker['dollars']:,.0f}",
            f"static peak ${static['dollars']:,.0f}, reactive ${reactive['dollars']:,.0f}",
        )
    lead = min(
        report.accuracy, key=lambda one: abs(one.minutes * 60 - report.scenario.lead_seconds), default=None
    )
    if lead is not None:
        yield _card(
            "p95 coverage",
            f"{lead.coverage95:.1%}",
            f"{lead.minutes} min ahead, {lead.scored:,} forecasts scored",
        )


def _card(title: str, value: str, note: str) -> str:
    return (
        f'<div class="card"><h3>{html.escape(title)}</h3><p class="big">{html.escape(value)}</p>'
        f"<p>{html.escape(note)}</p></div>"
    )


def _policies(report: BacktestReport) -> str:
    rows = []
    for policy in as_document(report)["policies"]:
        dollars = "" if policy["dollars"] is None else f"${policy['dollars']:,.2f}"
        rows.append(
            [
                policy["name"],
                _duration(policy["short_minutes"]),
                f"{policy['short_share']:.2%}",
                f"{policy['replica_hours']:,.0f}",
                dollars,
                f"{policy['scale_outs']} / {policy['scale_ins']}",
            ]
        )
    head = ["policy", "short", "share of time", "replica-hours", "cost", "scale-outs / -ins"]
    return _table(head, rows)


def _accuracy(report: BacktestReport) -> str:
    rows = [
        [
            _ahead(one.minutes),
            f"{one.scored:,}",
            f"{one.error50:.1%}",
            f"{one.coverage90:.1%}",
            f"{one.coverage95:.1%}",
            "" if one.pinball95_to_last_week is None else f"{one.pinball95_to_last_week:.2f}",
        ]
        for one in report.accuracy
    ]
    head = ["ahead", "forecasts", "p50 error", "under p90", "under p95", "p95 loss / last week's"]
    return _table(head, rows)


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
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _course(report: BacktestReport) -> dict[str, Any]:
    scenario = report.scenario
    peaker, reactive = report.policies[0], report.policies[1]
    return {
        "start": scenario.series.start_seconds + scenario.first * scenario.step_seconds,
        "step": scenario.step_seconds,
        "capacity": scenario.capacity_per_replica,
        "load": _rounded(scenario.load()),
        "p50": _rounded(report.lead_p50),
        "p95": _rounded(report.lead_p95),
        "peaker": peaker.serving.tolist(),
        "reactive": reactive.serving.tolist(),
        "reactive_name": reactive.name,
        "events": [
            [event.step + 1 - scenario.first, event.action, event.replicas, event.reason]
            for event in peaker.events
        ],
    }


def _rounded(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def _percent(part: float, whole: float) -> str:
    return "n/a" if whole <= 0 else f"{part / whole - 1:+.0%}"


def _duration(minutes: float) -> str:
    return f"{minutes:,.0f} min" if minutes < 600 else f"{minutes / 60:,.0f} h"


def _ahead(minutes: int) -> str:
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
