"""Drawn loads with bursts at random times, and metrics beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import Forecast, LoadSeries, forecast_demand
from peaker.domain.leading import LeadingMetric, forecast_with_leading

from tests.unit.domain.forecasting.loads import START

Floats = NDArray[np.float64]
STEP = 600
PER_HOUR = 6
DAY = 24 * PER_HOUR
LEAD_SECONDS = 1800.0


@dataclass(frozen=True)
class Drawn:
    """A load, its bursts (logarithms), and logins that show each burst `lag_steps` before."""

    load: LoadSeries
    bursts: Floats
    logins: Floats
    lag_steps: int


def drawn(
    seed: int = 1,
    days: int = 49,
    lag_minutes: int = 30,
    every_hours: float = 16.0,
    last_burst_ago: int | None = None,
) -> Drawn:
    """Bursts of half an hour to two hours that raise the load by half to one and a half times.

    last_burst_ago: one more burst, whose first login step lies so many steps before the end.
    """
    random = np.random.default_rng(seed)
    lag = lag_minutes * 60 // STEP
    count = days * DAY
    bursts = np.zeros(count + 10 * DAY)
    at = float(random.exponential(every_hours))
    calm = count - 2 * DAY if last_burst_ago is not None else count + lag
    while at * PER_HOUR < calm:
        lasts = float(random.uniform(0.5, 2))
        first, end = int(at * PER_HOUR), int((at + lasts) * PER_HOUR) + 1
        bursts[first:end] += random.uniform(0.4, 0.9)
        at += lasts + float(random.exponential(every_hours))
    if last_burst_ago is not None:
        begins = count - last_burst_ago + lag
        bursts[begins : begins + 2 * PER_HOUR] += 0.7
    wave = usual(count)
    load = 1000 * wave * np.exp(bursts[:count] + random.normal(0, 0.05, count))
    logins = 50 * wave * np.exp(0.8 * bursts[lag : lag + count] + random.normal(0, 0.06, count))
    return Drawn(LoadSeries(START, STEP, load), bursts[:count], logins, lag)


def usual(count: int) -> Floats:
    """A day, lower at weekends."""
    hours = np.arange(count) / PER_HOUR
    weekend = np.where((hours // 24 + 3) % 7 >= 5, 0.7, 1.0)
    return np.asarray(np.exp(0.7 * np.cos((hours - 15) / 24 * 2 * np.pi)) * weekend, dtype=float)


def with_metric(load: LoadSeries, values: Floats, lead_seconds: float = LEAD_SECONDS) -> Forecast:
    """The forecast that reckons with the metric `logins`."""
    return forecast_with_leading(load, (), [LeadingMetric("logins", values)], lead_seconds)


def without_metric(load: LoadSeries, lead_seconds: float = LEAD_SECONDS) -> Forecast:
    """The forecast as it is without any."""
    return forecast_demand(load, lead_seconds, reach_seconds=0.0)


def said(forecast: Forecast) -> str:
    """What the forecast says of the metric."""
    (text,) = [one for one in forecast.reasons if one.startswith("leading metric logins: ")]
    return text.removeprefix("leading metric logins: ")
