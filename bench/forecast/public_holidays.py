"""Drawn loads with the real holidays of ten places: how often holidays are reckoned with, and how near that comes.

Each load draws a day, weekends and noise over 14 months from January 2025 on; on each holiday that is no weekend the
load is `factor` times as high, a little stronger or weaker each time. Every three weeks the nine weeks before are
learned from, and the holidays of the two weeks that follow are foretold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.known_events import HolidayCalendar, PublicHoliday, learn_holidays

from bench.forecast.figures import Figure, figure, stated
from peaker_holidays import Place, public_holidays, weekday_of_rest

Floats = NDArray[np.float64]
PLACES = (
    *(Place("DE", "BY"), Place("DE", "BE"), Place("US"), Place("GB", "ENG"), Place("FR")),
    *(Place("JP"), Place("BR"), Place("PL"), Place("IN", "KA"), Place("ES")),
)
# Times the load; 1 is a day like others, and has as many draws as its share of wrong uses is to be seen from.
DRAWS = {1.0: range(400, 500), 0.6: range(500, 510), 1.4: range(600, 610)}
_START = datetime(2025, 1, 1, tzinfo=UTC)
_DAYS, _DAY, _STEP_SECONDS = 425, 24, 3600
_EVERY_DAYS, _AHEAD_DAYS = 21, 14


@dataclass(frozen=True)
class HolidayChecks:
    """One load: its checks, those in which a holiday was reckoned with, and the errors of the coming ones' effects.

    Errors are summed absolute differences of logarithms: with what was learned, and with nothing.
    """

    seed: int
    factor: float
    checks: int
    used: int
    error: float
    error_without: float


def drawn_with_holidays(seed: int, factor: float) -> tuple[LoadSeries, HolidayCalendar, Floats]:
    """The load, its calendar, and the logarithm of the holidays' effect on each day."""
    random = np.random.default_rng((20_261_124, seed))
    place = PLACES[seed % len(PLACES)]
    found = public_holidays(place, UTC, range(_START.year - 1, _START.year + 3))
    days = tuple(PublicHoliday(one.name, one.midnight.weekday(), one.midnight.timestamp()) for one in found)
    hours = np.arange(_DAYS * _DAY)
    wave = np.exp(random.uniform(0.3, 1.2) * np.cos((hours - random.uniform(10, 20)) / 24 * 2 * np.pi))
    week = np.where((hours // 24 + _START.weekday()) % 7 >= 5, random.uniform(0.5, 1.1), 1.0)
    keep, deviation = np.exp(-1 / random.uniform(2, 24)), random.uniform(0.03, 0.15)
    fresh = random.normal(0, deviation * np.sqrt(1 - keep**2), len(hours))
    noise = np.zeros(len(hours))
    for at in range(1, len(hours)):
        noise[at] = keep * noise[at - 1] + fresh[at]
    effects = np.zeros(_DAYS)
    for one in days:
        day = int((one.start_seconds - _START.timestamp()) // 86_400)
        if 0 <= day < _DAYS and one.weekday < 5:
            effects[day] = np.log(factor) * (1 + random.normal(0, 0.2))
    load = 1000 * wave * week * np.exp(noise + random.normal(0, 0.03, len(hours)) + np.repeat(effects, _DAY))
    calendar = HolidayCalendar(days, weekday_of_rest(place), days[-1].start_seconds)
    return LoadSeries(_START.timestamp(), _STEP_SECONDS, load), calendar, effects


def holidays_of(task: tuple[int, float]) -> HolidayChecks:
    """One row."""
    series, calendar, effects = drawn_with_holidays(*task)
    checks, used, error, without = 0, 0, 0.0, 0.0
    for end in range(KEPT_HISTORY_DAYS, _DAYS - _AHEAD_DAYS, _EVERY_DAYS):
        first = end - KEPT_HISTORY_DAYS
        start = series.start_seconds + first * 86_400
        known = LoadSeries(start, _STEP_SECONDS, series.values[first * _DAY : end * _DAY])
        shapes = np.zeros((_AHEAD_DAYS, _DAY))
        learned = learn_holidays(known, calendar)
        for one in learned:
            day = int((one.event.starts_seconds[0] - known.end_seconds) // 86_400) if one.used else -1
            if day >= 0:
                shapes[day] = one.shape
        truth = effects[end : end + _AHEAD_DAYS, None]
        checks, used = checks + 1, used + learned[0].used
        error += float(np.abs(truth - shapes)[effects[end : end + _AHEAD_DAYS] != 0].sum()) / _DAY
        without += float(np.abs(truth).sum())
    return HolidayChecks(*task, checks, used, error, without)


def holiday_figures(rows: Sequence[HolidayChecks]) -> dict[str, Figure]:
    """How often holidays without an effect are reckoned with, and what is foretold of those that have one."""
    nothing, real = [one for one in rows if one.factor == 1], [one for one in rows if one.factor != 1]
    if not nothing or not real:
        return {}
    wrong = sum(one.used for one in nothing) / sum(one.checks for one in nothing)
    share = sum(one.error for one in real) / sum(one.error_without for one in real)
    return {
        "holidays_without_effect_used": figure(wrong, "<= 0.01", wrong <= 0.01),
        "holidays_error_to_without": figure(share, "<= 0.80", share <= 0.8),
        "holidays_checks_used": stated(
            sum(one.used for one in real) / sum(one.checks for one in real), "1.0"
        ),
    }
