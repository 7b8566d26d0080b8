"""What knowing the public holidays would have come to, in words, and the lines for the settings where it helps."""

from __future__ import annotations

from datetime import datetime, tzinfo
from itertools import islice

import numpy as np
from peaker.domain.known_events import PublicHoliday, likeness_by_day

from peaker_backtest.errors import shown, shown_whole
from peaker_backtest.event_advice import course_text
from peaker_backtest.report import BacktestReport
from peaker_backtest.verdict import weighted
from peaker_contract.load_settings import WEEKDAYS

_MOST_SHOWN = 40


def advice_on_holidays(report: BacktestReport) -> list[str]:
    """Whether to name them in the settings, and what each of them was like; empty where none were asked for."""
    gain, of = report.holidays, report.options.holidays
    if gain is None or of is None:
        return []
    whose = f"Public holidays of {of.place}, midnight to midnight in {of.zone_name or of.zone}"
    like = _likeness(report)
    if gain.coverage95 is None or gain.coverage95_without is None:
        return [f"{whose}: none of them was compared, so nothing can be said.", *like]
    ours, theirs = report.peaker.compared, gain.without.compared
    verdict = "they do not help here, leave them out"
    if not _changed(report):
        verdict = "they changed nothing here"
    elif holidays_help(report):
        verdict = "they help, name them"
    with_them = course_text(report, ours, weighted(report, ours))
    without = course_text(report, theirs, weighted(report, theirs))
    return [
        f"{whose}: {verdict} (public_holidays of the cluster). On them p95 covered {gain.coverage95:.0%} of the loads, "
        f"without them {gain.coverage95_without:.0%}.",
        f"With them {with_them}; without them {without}.",
        f"Learned by the end: {'; '.join(shown_whole(text) for text in gain.learned) or 'nothing yet'}.",
        *like,
    ]


def holidays_help(report: BacktestReport) -> bool:
    """Whether the replay that knew them came to less, replica-hours short weighted."""
    gain = report.holidays
    return gain is not None and weighted(report, report.peaker.compared) < weighted(
        report, gain.without.compared
    )


def lines_for_settings(report: BacktestReport) -> str:
    """What to write into the cluster's settings; empty where holidays do not help."""
    of = report.options.holidays
    return of.settings_lines if of is not None and holidays_help(report) else ""


def _changed(report: BacktestReport) -> bool:
    gain = report.holidays
    return gain is not None and not np.array_equal(report.peaker.serving, gain.without.serving)


def _likeness(report: BacktestReport) -> list[str]:
    """How far each holiday of the load went from its weekday to the day of rest."""
    calendar, of = report.scenario.holidays, report.options.holidays
    found = [] if calendar is None else likeness_by_day(report.scenario.series, calendar)
    if calendar is None or of is None or not found:
        return []
    shares = islice(reversed(found), _MOST_SHOWN)
    listed = ", ".join(f"{shown(one.name)} {_day(one, of.zone)} {share:.0%}" for one, share in shares)
    rest = WEEKDAYS[calendar.day_of_rest].title()
    return [
        f"How far each went from its weekday to a {rest}, the newest first: {listed}. "
        "One that is a day like others is best left out (--ordinary-holiday NAME)."
    ]


def _day(holiday: PublicHoliday, zone: tzinfo) -> str:
    return datetime.fromtimestamp(holiday.start_seconds, zone).strftime("%Y-%m-%d")
