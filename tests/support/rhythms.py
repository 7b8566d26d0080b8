"""Loads of several kinds, small and seeded: what people, schedules and events make of a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEP_SECONDS = 1800
DAYS = 42


def _clock() -> tuple[Floats, Floats, NDArray[np.int64]]:
    """(hours since the start, hour of the day, number of the day) per step."""
    hours = np.arange(DAYS * 86_400 // STEP_SECONDS) * STEP_SECONDS / 3600
    return hours, hours % 24, (hours // 24).astype(np.int64)


def _wave(hour: Floats, peak: float, sharpness: float) -> Floats:
    return np.asarray(np.exp(sharpness * np.cos((hour - peak) / 24 * 2 * np.pi)), dtype=float)


def _slow_noise(random: np.random.Generator, count: int, memory_hours: float, deviation: float) -> Floats:
    """Noise that remembers: an AR(1) of the given memory."""
    keep = float(np.exp(-STEP_SECONDS / 3600 / memory_hours))
    fresh = random.normal(0, deviation * np.sqrt(1 - keep**2), count)
    noise = np.zeros(count)
    for i in range(1, count):
        noise[i] = keep * noise[i - 1] + fresh[i]
    return noise


def web(random: np.random.Generator) -> Floats:
    """Requests: a day, a week, slow noise, and counts."""
    hours, hour, day = _clock()
    weekend = np.where(day % 7 >= 5, 0.6, 1.0)
    rate = 200 * _wave(hour, 15, 0.7) * weekend * np.exp(_slow_noise(random, len(hours), 6, 0.15))
    return random.poisson(rate).astype(float)


def events(random: np.random.Generator) -> Floats:
    """Growth, and in its second half events of two hours at three in four of two hours of the day."""
    hours, hour, _ = _clock()
    load = 200 * _wave(hour, 18, 0.6) * np.exp(np.interp(hours, [0, 30 * 24, DAYS * 24], [0, 0.8, 1.6]))
    load *= np.exp(_slow_noise(random, len(hours), 5, 0.1))
    for number in range(DAYS // 2, DAYS):
        for start in (15.0, 20.0):
            if random.random() < 0.75:
                since = hours - 24 * number - start
                load *= 1 + random.lognormal(0.3, 0.4) * ((since >= 0) & (since < 2))
    return load


def office(random: np.random.Generator) -> Floats:
    """Working hours from Monday to Friday, one public holiday."""
    hours, hour, day = _clock()
    work = 1 / (1 + np.exp(-(hour - 8.5) / 0.4)) / (1 + np.exp((hour - 17.8) / 0.6))
    load = 30 + 400 * work * np.where((day % 7 >= 5) | (day == 37), 0.08, 1.0)
    return np.asarray(load * np.exp(_slow_noise(random, len(hours), 3, 0.1)), dtype=float)


def batch(random: np.random.Generator) -> Floats:
    """A gentle day, and jobs at fixed hours that multiply it."""
    hours, hour, _ = _clock()
    load = 100 * _wave(hour, 14, 0.4)
    for start, end, size in ((2.0, 3.0, 250.0), (22.0, 23.5, 300.0)):
        load = load + size * ((hour >= start) & (hour < end))
    return np.asarray(load * np.exp(random.normal(0, 0.06, len(hours))), dtype=float)


def drift(random: np.random.Generator) -> Floats:
    """A day on a level that wanders."""
    hours, hour, _ = _clock()
    level = np.cumsum(random.normal(0, 0.012, len(hours)))
    return np.asarray(
        200 * _wave(hour, 16, 0.6) * np.exp(level + random.normal(0, 0.05, len(hours))), dtype=float
    )


def clean(random: np.random.Generator) -> Floats:
    """A day and a week with little noise."""
    hours, hour, day = _clock()
    return np.asarray(
        1000
        * _wave(hour, 15, 1.0)
        * np.where(day % 7 >= 5, 0.7, 1.0)
        * np.exp(random.normal(0, 0.03, len(hours))),
        dtype=float,
    )


KINDS: Mapping[str, Callable[[np.random.Generator], Floats]] = {
    made.__name__: made for made in (web, events, office, batch, drift, clean)
}


def load_of(kind: str, seed: int = 1) -> Floats:
    """DAYS days of that kind in steps of STEP_SECONDS."""
    return KINDS[kind](np.random.default_rng(seed))
