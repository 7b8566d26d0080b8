"""Forecasts that reckon with known events: the load is freed of them, forecast, and gets the coming ones back.

The models see a load as if no event had been, so a match of last Saturday is not expected this Saturday, and errors of
event days do not widen ordinary ones. Within a coming event the quantiles move by its shape, and its own spread between
days is added to the band's (independent errors: their squares add up).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from statistics import NormalDist

import numpy as np

from peaker.domain.forecasting import ExpectedEvent, Forecast, LoadSeries, forecast_demand
from peaker.domain.forecasting.forecast import rises
from peaker.domain.forecasting.forecaster import newest_load, rolling_forecasts
from peaker.domain.forecasting.panel import believable
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS, Floats

from .holidays import HolidayCalendar, learn_holidays
from .learning import LearnedEvent, RepeatingEvent, learn_events, offset_of

# How a forecast's reason about an event begins.
EVENT_REASON = "known event "
# A rise is held against those of four weeks.
_SEEN_DAYS = 29


def forecast_with_events(
    series: LoadSeries,
    events: Sequence[RepeatingEvent],
    lead_seconds: float,
    metric_name: str = "",
    reach_seconds: float = 0.0,
    holidays: HolidayCalendar | None = None,
    zone: tzinfo = UTC,
) -> Forecast:
    """The forecast from the end of the series, and in its reasons what became of each event and of holidays."""
    offset = offset_of(series)
    learned = _learned(series, events, holidays, offset)
    free = _freed(series, learned, offset)
    issued = forecast_demand(
        free, lead_seconds, metric_name=metric_name, reach_seconds=reach_seconds, zone=zone
    )
    if not learned:
        return issued
    return _given_back(issued, series, len(series.values) - 1, learned, offset)


def rolling_with_events(
    series: LoadSeries,
    events: Sequence[RepeatingEvent],
    origins: Sequence[int],
    lead_seconds: Sequence[float],
    horizon_steps: int,
    reach_seconds: float = 0.0,
    holidays: HolidayCalendar | None = None,
) -> Iterator[tuple[int, tuple[Forecast, ...]]]:
    """rolling_forecasts that reckon with events; what they teach is learned once a day from what was known by then."""
    if not events and holidays is None:
        yield from rolling_forecasts(series, origins, lead_seconds, horizon_steps, reach_seconds)
        return
    day, position = series.steps_per_day, 0
    while position < len(origins):
        fitted_at = origins[position]
        chunk = [one for one in origins[position : position + day] if one < fitted_at + day]
        position += len(chunk)
        first = max(0, fitted_at + 1 - KEPT_HISTORY_DAYS * day)
        known = LoadSeries(
            series.start_seconds + first * series.step_seconds,
            series.step_seconds,
            series.values[first : fitted_at + 1],
        )
        offset = offset_of(known)
        learned = _learned(known, events, holidays, offset)
        free = _freed(series, learned, offset)
        for origin, forecasts in rolling_forecasts(free, chunk, lead_seconds, horizon_steps, reach_seconds):
            yield origin, tuple(_given_back(one, series, origin, learned, offset) for one in forecasts)


def _learned(
    series: LoadSeries, events: Sequence[RepeatingEvent], holidays: HolidayCalendar | None, offset: float
) -> tuple[LearnedEvent, ...]:
    """What holidays and events teach; an event on a holiday has what it brings beside the holiday."""
    days = learn_holidays(series, holidays, events) if holidays is not None else ()
    return (*days, *learn_events(_freed(series, days, offset), events))


def _freed(series: LoadSeries, learned: Sequence[LearnedEvent], offset: float) -> LoadSeries:
    """The load as it would have been without the events that are reckoned with."""
    shift = np.zeros(len(series.values))
    for one in learned:
        if one.used:
            _add(shift, one, series)
    if not shift.any():
        return series
    return replace(series, values=np.maximum((series.values + offset) / np.exp(shift) - offset, 0.0))


def _add(shift: Floats, one: LearnedEvent, series: LoadSeries, after: int = 0) -> None:
    """Add an event's shape to the steps of `shift`, whose first is step `after` of the series."""
    for first, end in one.event.steps(series):
        begin, stop = max(first, after), min(end, after + len(shift), first + len(one.shape))
        if begin < stop:
            shift[begin - after : stop - after] += one.shape[begin - first : stop - first]


def _given_back(
    free: Forecast, series: LoadSeries, origin: int, learned: Sequence[LearnedEvent], offset: float
) -> Forecast:
    """The forecast with the coming events, and with the load as it was seen."""
    reasons = (*free.reasons, *dict.fromkeys(f"{EVENT_REASON}{one.told}" for one in learned))
    used = [one for one in learned if one.used]
    if not used:
        return replace(free, reasons=reasons)
    seen = _as_seen(free, series, origin)
    if seen.quantiles is None:
        return replace(seen, reasons=reasons)
    near = len(seen.quantiles)
    size = seen.later_step_seconds // seen.step_seconds
    later = 0 if seen.later_quantiles is None else len(seen.later_quantiles)
    moves, spreads = np.zeros(near + later * size), np.zeros(near + later * size)
    for one in used:
        _add(moves, one, series, origin + 1)
        _add(spreads, replace(one, shape=np.full(len(one.shape), one.spread**2)), series, origin + 1)
    if not moves.any():
        return replace(seen, reasons=reasons)
    quantiles = _moved(seen.quantiles, seen.levels, moves[:near], spreads[:near], offset)
    hours = None
    if seen.later_quantiles is not None:
        # An hour stands for its highest steps, and so for the event's.
        of_hours = moves[near:].reshape(later, size).max(axis=1)
        spread_of_hours = spreads[near:].reshape(later, size).max(axis=1)
        hours = _moved(seen.later_quantiles, seen.levels, of_hours, spread_of_hours, offset)
    return replace(
        seen, quantiles=quantiles, later_quantiles=hours, reasons=reasons,
        events=tuple(event for one in used for event in _expected(one, free)),
    )  # fmt: skip


def _as_seen(free: Forecast, series: LoadSeries, origin: int) -> Forecast:
    """The load of now and how fast it rises are what they are, whatever they come from."""
    first = max(0, origin + 1 - _SEEN_DAYS * series.steps_per_day)
    start = series.start_seconds + first * series.step_seconds
    recent = LoadSeries(start, series.step_seconds, series.values[first : origin + 1])
    newest = len(recent.values) - 1
    last_load = newest_load(recent, believable(recent.values, len(recent.values)), newest)[1]
    rise = None if free.rise is None else rises(recent, np.array([newest]))[0]
    return replace(free, last_load=last_load, rise=rise)


def _expected(one: LearnedEvent, free: Forecast) -> list[ExpectedEvent]:
    """The event's days that the forecast reaches, the one that runs now among them."""
    until = free.issued_at_seconds + free.reach_seconds
    length = one.event.duration_seconds
    return [
        ExpectedEvent(one.event.name, start, start + length, one.factor, one.days, one.told_as or "days")
        for start in one.event.starts_seconds
        if start < until and start + length > free.issued_at_seconds
    ]


def _moved(
    quantiles: Floats, levels: Sequence[float], moves: Floats, variances: Floats, offset: float
) -> Floats:
    """Quantiles [step, level] within events: the median by the shape, each band with the event's own spread."""
    inside = (moves != 0) | (variances > 0)
    if not inside.any():
        return quantiles
    scores = np.array([NormalDist().inv_cdf(level) for level in levels])
    z = np.log(quantiles[inside] + offset)
    middle = z[:, :1]
    width = np.sqrt((z - middle) ** 2 + variances[inside][:, None] * scores[None, :] ** 2)
    result = quantiles.copy()
    result[inside] = np.maximum(np.exp(middle + moves[inside][:, None] + width) - offset, 0.0)
    return result
