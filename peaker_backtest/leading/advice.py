"""What knowing leading metrics would have come to, in words."""

from __future__ import annotations

from peaker_backtest.errors import shown, shown_whole
from peaker_backtest.event_advice import course_text
from peaker_backtest.report import BacktestReport
from peaker_backtest.verdict import weighted


def advice_on_leading(report: BacktestReport) -> list[str]:
    """What the metrics came to, and whether to name them in the settings; empty where none were named."""
    gain = report.leading
    if gain is None:
        return []
    names = ", ".join(shown(name) for name in gain.names)
    learned = f"By the end: {'; '.join(shown_whole(text) for text in gain.learned) or 'nothing yet'}."
    ours, theirs = report.peaker.compared, gain.without.compared
    mine, other = weighted(report, ours), weighted(report, theirs)
    if gain.pinball95_to_without is None:
        return [f"Leading metrics ({names}): nothing was compared, so nothing can be said.", learned]
    if mine < other:
        verdict = "they help, name them"
    elif mine == other:
        verdict = "they change nothing here"
    else:
        verdict = "they do not help here, leave them out"
    return [
        f"Leading metrics ({names}): {verdict} (leading_metrics of the cluster). One lead time ahead the loss of p95 "
        f"is {gain.pinball95_to_without:.2f} of that without them.",
        f"With them {course_text(report, ours, mine)}; without them {course_text(report, theirs, other)}.",
        learned,
    ]
