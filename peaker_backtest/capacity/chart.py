"""The page's part on the capacity of a replica: load per replica against the measure, the fit, the limit."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np

from peaker_backtest.capacity.advice import advice_on_capacity
from peaker_backtest.capacity.effect import CapacityFinding
from peaker_backtest.capacity.evidence import upper_fit
from peaker_backtest.capacity.observations import Observations
from peaker_backtest.report import BacktestReport

_TEMPLATE = Path(__file__).with_name("chart.html")
_MOST_POINTS = 3_000
_DRAWN_FROM = 20_260_101


def capacity_section(report: BacktestReport) -> str:
    """Heading, sentences and chart, escaped; nothing where the capacity was not asked for."""
    said = "".join(f"<p>{html.escape(text)}</p>" for text in advice_on_capacity(report))
    finding = report.capacity
    if finding is None:
        return ""
    head = f"<h2>Capacity of a replica</h2>{said}"
    if finding.seen is None or not len(finding.seen.loads):
        return head
    data = json.dumps(chart_data(finding, finding.seen, report.load_unit), separators=(",", ":"))
    # A "<" inside a script could end it or open a comment; JSON knows another way to write it.
    return head + _TEMPLATE.read_text(encoding="utf-8").replace(
        "{{CAPACITY_DATA}}", data.replace("<", "\\u003c")
    )


def chart_data(finding: CapacityFinding, seen: Observations, unit: str) -> dict[str, Any]:
    """What the chart draws: (load per replica, measure) of 3,000 steps at most, those of odd days apart."""
    proposal = finding.proposal
    odd = [] if proposal.evidence is None else [one.day for one in proposal.evidence.odd]
    kept = seen.without_days(odd)
    apart = seen.without_days(np.setdiff1d(seen.days, odd).tolist())
    return {
        "points": _drawn(kept, max(1, _MOST_POINTS - min(len(apart.loads), _MOST_POINTS // 3))),
        "odd": _drawn(apart, _MOST_POINTS // 3),
        "shown": min(_MOST_POINTS, len(seen.loads)),
        "all": len(seen.loads),
        "fit": [[_short(load), _short(measure)] for load, measure in upper_fit(kept)],
        "limit": proposal.limit.value,
        "unit": proposal.limit.unit,
        "measure": proposal.limit.measure,
        "load_unit": unit,
        "now": proposal.now,
        "capacity": proposal.capacity,
        "passed": proposal.passed_at,
        "standing": proposal.standing.value,
    }


def _drawn(seen: Observations, most: int) -> list[list[float]]:
    """Each point, or that many of them: those of the highest loads and measures all, of the others a sample."""
    count = len(seen.loads)
    if count > most:
        telling = (seen.loads.argsort().argsort() > count - most // 3) | (
            seen.measures.argsort().argsort() > count - most // 6
        )
        rest = np.flatnonzero(~telling)
        random = np.random.default_rng(_DRAWN_FROM)
        chosen = random.choice(rest, size=max(0, min(len(rest), most - int(telling.sum()))), replace=False)
        picked = np.sort(np.concatenate([np.flatnonzero(telling), chosen]))
    else:
        picked = np.arange(count)
    return [[_short(seen.loads[at]), _short(seen.measures[at])] for at in picked]


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")
