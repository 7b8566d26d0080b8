"""What knowing the days of events would have come to, in words."""

from __future__ import annotations

from peaker_backtest.errors import shown, shown_whole
from peaker_backtest.replay.simulation import Figures
from peaker_backtest.report import BacktestReport
from peaker_backtest.verdict import weighted


def advice_on_events(report: BacktestReport) -> list[str]:
    """What knowing the events came to, and whether to name them in the settings; empty where none were named."""
    gain = report.events
    if gain is None:
        return []
    names = ", ".join(shown(name) for name in gain.names)
    lines = [f"Learned by the end: {'; '.join(shown_whole(text) for text in gain.learned) or 'nothing yet'}."]
    if gain.coverage95 is None or gain.coverage95_without is None:
        return [f"Known events ({names}): none of their days was compared, so nothing can be said.", *lines]
    ours, theirs = report.peaker.compared, gain.without.compared
    mine, other = weighted(report, ours), weighted(report, theirs)
    helps = mine < other
    return [
        f"Known events ({names}): {'they help, name them' if helps else 'they do not help here, leave them out'} "
        f"(repeating_events of the cluster). Within them p95 covered {gain.coverage95:.0%} of the loads, without them "
        f"{gain.coverage95_without:.0%}.",
        f"With them {course_text(report, ours, mine)}; without them {course_text(report, theirs, other)}.",
        *lines,
    ]


def course_text(report: BacktestReport, figures: Figures, weighted: float) -> str:
    """What a replay came to: hours, dollars where the price is known, shortage, and both weighted."""
    dollars = report.dollars(figures.replica_hours)
    cost = "" if dollars is None else f" (${dollars:,.2f})"
    short = f"short {figures.short_minutes:,.0f} min"
    return f"{figures.replica_hours:,.0f} replica-hours{cost}, {short}, weighted {weighted:,.0f}"
