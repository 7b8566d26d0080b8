"""Drawn loads with an event that repeats in no rhythm: what knowing its days is worth, and what it costs where nothing
happens on them.

Each load draws a day, a week and noise; the event comes every 5 to 10 days at one hour, for 2 to 6 hours, and its
strength differs from day to day. Two months are history, four weeks are forecast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.record import pinball
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.known_events import RepeatingEvent, rolling_with_events

from bench.forecast.figures import Figure, figure, stated

Floats = NDArray[np.float64]
STEP_SECONDS = 1800
START_SECONDS = 1_767_225_600.0
_DAY = 86_400 // STEP_SECONDS
_TESTED_DAYS = 28
_EVERY_STEPS = 4
_AHEAD_STEPS = (3, 12, 40)
_LEAD_SECONDS = 4200.0
# Logarithms of the event's factor: 1.5 and 2.2 times the load, two thirds of it, and nothing at all.
EFFECTS = (0.4, 0.8, -0.4, 0.0)
SEEDS = range(300, 303)


@dataclass(frozen=True)
class Repeating:
    """One load: loss of p95 (of the mean load) and coverage, with and without knowing the event, in it and outside."""

    seed: int
    effect: float
    loss: float
    loss_without: float
    covered: float
    covered_without: float
    loss_outside: float
    loss_outside_without: float


def drawn(seed: int, effect: float) -> tuple[LoadSeries, RepeatingEvent]:
    """The load and its event."""
    random = np.random.default_rng((20_261_124, seed))
    hours = np.arange((KEPT_HISTORY_DAYS + _TESTED_DAYS) * _DAY) * STEP_SECONDS / 3600
    day = np.exp(random.uniform(0.3, 1.2) * np.cos((hours - random.uniform(10, 20)) / 24 * 2 * np.pi))
    week = np.where((hours // 24) % 7 >= 5, random.uniform(0.5, 1.1), 1.0)
    keep, deviation = np.exp(-STEP_SECONDS / 3600 / random.uniform(2, 24)), random.uniform(0.03, 0.15)
    fresh = random.normal(0, deviation * np.sqrt(1 - keep**2), len(hours))
    noise = np.zeros(len(hours))
    for at in range(1, len(hours)):
        noise[at] = keep * noise[at - 1] + fresh[at]
    load = 1000 * day * week * np.exp(noise + random.normal(0, 0.03, len(hours)))
    begins, lasts = float(random.integers(8, 21)), float(random.uniform(2, 6))
    starts = []
    at = int(random.integers(2, 6))
    while 24 * (at + 1) < hours[-1]:
        since = (hours + STEP_SECONDS / 7200 - 24 * at - begins) / lasts
        inside = (since >= 0) & (since < 1)
        strength = effect * (1 + random.normal(0, 0.2)) * (0.4 + 0.6 * np.sin(np.pi * np.clip(since, 0, 1)))
        load *= np.exp(np.where(inside, strength, 0.0))
        starts.append(START_SECONDS + 3600 * (24 * at + begins))
        at += int(random.integers(5, 11))
    return LoadSeries(START_SECONDS, STEP_SECONDS, load), RepeatingEvent("event", tuple(starts), 3600 * lasts)


def repeating_of(task: tuple[int, float]) -> Repeating:
    """One row."""
    series, event = drawn(*task)
    inside = np.zeros(len(series.values), dtype=bool)
    for first, end in event.steps(series):
        inside[first:end] = True
    aware, unaware = (_scored(series, known) for known in ((event,), ()))
    within = inside[aware[0]]
    mean = float(series.values.mean())

    def loss(scored: tuple[NDArray[np.int64], Floats], where: NDArray[np.bool_]) -> float:
        at, p95 = scored
        return float(pinball(series.values[at][where], p95[where], 0.95).mean()) / mean

    def covered(scored: tuple[NDArray[np.int64], Floats]) -> float:
        at, p95 = scored
        return float((series.values[at][within] <= p95[within]).mean())

    return Repeating(
        *task, loss(aware, within), loss(unaware, within), covered(aware), covered(unaware),
        loss(aware, ~within), loss(unaware, ~within),
    )  # fmt: skip


def _scored(series: LoadSeries, known: tuple[RepeatingEvent, ...]) -> tuple[NDArray[np.int64], Floats]:
    """(step, p95 of it) for each forecast and time ahead."""
    origins = range(KEPT_HISTORY_DAYS * _DAY, len(series.values) - max(_AHEAD_STEPS), _EVERY_STEPS)
    steps, p95 = [], []
    for origin, (issued,) in rolling_with_events(series, known, origins, [_LEAD_SECONDS], _DAY):
        for ahead in _AHEAD_STEPS:
            steps.append(origin + ahead)
            p95.append(float(issued.quantile(0.95)[ahead - 1]))
    return np.array(steps), np.array(p95)


def repeating_figures(rows: list[Repeating]) -> dict[str, Figure]:
    """What knowing the event is worth where it has an effect, and what it costs where it has none."""
    real, nothing = [one for one in rows if one.effect], [one for one in rows if not one.effect]
    if not real or not nothing:
        return {}

    def mean(rows: list[Repeating], name: str) -> float:
        return float(np.mean([getattr(one, name) for one in rows]))

    worth = mean(real, "loss") / mean(real, "loss_without")
    covered = mean(real, "covered")
    outside = mean(real, "loss_outside") / mean(real, "loss_outside_without")
    cost = mean(nothing, "loss") / mean(nothing, "loss_without")
    return {
        "event_p95_loss_to_without": figure(worth, "<= 0.50", worth <= 0.5),
        "event_p95_coverage": figure(covered, ">= 0.90", covered >= 0.9),
        "event_p95_coverage_without": stated(mean(real, "covered_without"), "0.95"),
        "event_p95_loss_outside_to_without": figure(outside, "<= 1.00", outside <= 1.0),
        "event_without_effect_p95_loss_to_without": figure(cost, "<= 1.05", cost <= 1.05),
    }
