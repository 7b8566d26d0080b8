"""Forecasts that reckon with leading metrics: raised where one that is proven is above its usual, else as they were.

A metric says something of the steps that its lag reaches, and nothing of later ones. Of several metrics the one that
says most counts: they may all see the same. Steps within known events are left to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peaker.domain.forecasting import Forecast, LeadingSignal, LoadSeries
from peaker.domain.forecasting.forecaster import LATE_SECONDS
from peaker.domain.forecasting.panel import highest_loads
from peaker.domain.forecasting.record import PastForecasts
from peaker.domain.forecasting.series import Floats
from peaker.domain.known_events import (
    HolidayCalendar,
    RepeatingEvent,
    forecast_with_events,
    rolling_with_events,
)

from .learning import Bools, LearnedMetric, PastRows, learn_metric, not_used, raised_by
from .series import LeadingMetric, above_usual

# How a forecast's reason about a leading metric begins.
LEADING_REASON = "leading metric "


def forecast_with_leading(
    series: LoadSeries,
    events: Sequence[RepeatingEvent],
    metrics: Sequence[LeadingMetric],
    lead_seconds: float,
    metric_name: str = "",
    reach_seconds: float = 0.0,
    holidays: HolidayCalendar | None = None,
) -> Forecast:
    """The forecast from the end of the series, and in its reasons what became of each metric.

    Each metric has a value per step of the series.
    """
    issued = forecast_with_events(series, events, lead_seconds, metric_name, reach_seconds, holidays)
    return _Reckoning(series, metrics).raised(issued, len(series.values) - 1, lead_seconds)


def rolling_with_leading(
    series: LoadSeries,
    events: Sequence[RepeatingEvent],
    metrics: Sequence[LeadingMetric],
    origins: Sequence[int],
    lead_seconds: Sequence[float],
    horizon_steps: int,
    reach_seconds: float = 0.0,
    holidays: HolidayCalendar | None = None,
) -> Iterator[tuple[int, tuple[Forecast, ...]]]:
    """rolling_with_events that reckon with leading metrics, learned once a day from what was known by then."""
    reckoning = _Reckoning(series, metrics)
    ahead = (lead_seconds, horizon_steps, reach_seconds)
    rolling = rolling_with_events(series, events, origins, *ahead, holidays)
    for origin, forecasts in rolling:
        each = zip(forecasts, lead_seconds, strict=True)
        yield origin, tuple(reckoning.raised(one, origin, lead) for one, lead in each)


@dataclass(frozen=True)
class _Known:
    """One metric on the steps of the fitted models' series, and what it taught by then."""

    metric: LeadingMetric
    above: Floats
    learned: LearnedMetric


class _Reckoning:
    """What the metrics taught, kept for as long as the models are the same: a day of a replay."""

    def __init__(self, series: LoadSeries, metrics: Sequence[LeadingMetric]) -> None:
        self.series, self.metrics = series, metrics
        self._of: object = None
        self._known: dict[tuple[str, float], list[_Known]] = {}

    def raised(self, issued: Forecast, origin: int, lead_seconds: float) -> Forecast:
        """The forecast of step `origin`; only its reasons differ where no metric raises it."""
        past, forecast = issued.past, replace(issued, past=None)
        if not self.metrics:
            return forecast
        if past is None or forecast.quantiles is None:
            said = [f"{LEADING_REASON}{one.name}: not used: nothing is forecast" for one in self.metrics]
            return replace(forecast, reasons=(*forecast.reasons, *said))
        first = self._first(past)
        said, signals = [], []
        moves = np.zeros(len(forecast.quantiles))
        for one in self._learned(past, lead_seconds):
            found, text = _said_now(one, origin - first, self.series.step_seconds, lead_seconds)
            found = _outside_events(found[: len(moves)], forecast)
            said.append(f"{LEADING_REASON}{one.metric.name}: {text}")
            if found.any():
                signals.append(_signal(one, found, forecast))
                moves[: len(found)] = np.maximum(moves[: len(found)], found)
        forecast = replace(forecast, reasons=(*forecast.reasons, *said))
        if not signals or forecast.quantiles is None:
            return forecast
        panel = past.models.panel
        inside = np.flatnonzero(moves)
        z = np.log(forecast.quantiles[inside] + panel.offset)
        quantiles = forecast.quantiles.copy()
        highest = float(highest_loads(panel)[origin - first])
        raised = panel.load(raised_by(z, moves[inside, None], np.full_like(z, highest)))
        quantiles[inside] = np.maximum(quantiles[inside], raised)
        return replace(forecast, quantiles=quantiles, events=(*forecast.events, *signals))

    def _first(self, past: PastForecasts) -> int:
        """The step of the whole series at which that of the models begins."""
        return round(
            (past.models.panel.series.start_seconds - self.series.start_seconds) / self.series.step_seconds
        )

    def _learned(self, past: PastForecasts, lead_seconds: float) -> list[_Known]:
        if past.models is not self._of:
            self._of, self._known = past.models, {}
        key = (past.model, lead_seconds)
        if key not in self._known:
            rows, first = PastRows(past, self._inside_events(past)), self._first(past)
            self._known[key] = [_known(one, rows, first, lead_seconds) for one in self.metrics]
        return self._known[key]

    def _inside_events(self, past: PastForecasts) -> Bools:
        """Steps whose load was freed of a known event before the models saw it."""
        free, first = past.models.panel.series.values, self._first(past)
        seen = self.series.values[first : first + len(free)]
        return np.asarray(np.isfinite(seen) & (seen != free))


def _known(metric: LeadingMetric, rows: PastRows, first: int, lead_seconds: float) -> _Known:
    panel, known_steps = rows.past.models.panel, rows.past.known_steps
    here = metric.between(first, first + len(panel.series.values))
    if metric.unknown or not np.isfinite(here.values[:known_steps]).any():
        nothing = not_used(metric.unknown or "it has no points")
        return _Known(metric, np.full(len(here.values), np.nan), nothing)
    above = above_usual(here.values, panel.series, known_steps)
    return _Known(metric, above, learn_metric(rows, above, lead_seconds))


def _said_now(one: _Known, at: int, step_seconds: int, lead_seconds: float) -> tuple[Floats, str]:
    """(by how much it raises each step ahead, what is told of it) at step `at` of the models' series."""
    learned, none = one.learned, np.zeros(0)
    lag = "" if learned.lag_steps is None else f" (lag {learned.lag_steps * step_seconds / 60:.0f} min)"
    if not learned.used or learned.lag_steps is None:
        return none, f"not used{lag}: {learned.reason}"
    seen = np.flatnonzero(np.isfinite(one.above[: at + 1]))
    late = float(at - seen[-1]) * step_seconds if len(seen) else float("inf")
    if late > LATE_SECONDS:
        return none, f"not used now{lag}: its newest point is {late / 60:.0f} min late, so it is unknown"
    moves = learned.moves(one.above, at)
    now = f"now up to x{np.exp(moves.max()):.2f}" if moves.any() else "now at its usual"
    text = f"used{lag}, {now}: {learned.reason}"
    if learned.lag_steps * step_seconds < lead_seconds:
        text += (
            f"; a replica takes {lead_seconds / 60:.0f} min, so what it foretells only keeps those that serve"
        )
    return moves, text


def _outside_events(moves: Floats, forecast: Forecast) -> Floats:
    """Known events within the forecast's reach are left to what their earlier days teach."""
    ends = forecast.issued_at_seconds + forecast.step_seconds * np.arange(1, len(moves) + 1)
    free = np.ones(len(moves), dtype=bool)
    for event in forecast.events:
        free &= (ends <= event.start_seconds) | (ends - forecast.step_seconds >= event.end_seconds)
    return np.where(free, moves, 0.0)


def _signal(one: _Known, moves: Floats, forecast: Forecast) -> LeadingSignal:
    inside, step = np.flatnonzero(moves), float(forecast.step_seconds)
    return LeadingSignal(
        name=one.metric.name,
        start_seconds=forecast.issued_at_seconds + step * float(inside[0]),
        end_seconds=forecast.issued_at_seconds + step * float(inside[-1] + 1),
        factor=float(np.exp(moves.max())),
        lag_seconds=step * float(one.learned.lag_steps or 0),
    )
