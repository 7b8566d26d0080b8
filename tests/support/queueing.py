"""Replicas whose capacity is known, as their operator sees them: load, p95 latency, and how many serve.

Each replica is a queue with several workers (M/M/c): its p95 response time is flat, and rises steeply towards
saturation. What is seen scatters by step, by stretches of hours and by day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from peaker_backtest.capacity.observations import Limit
from peaker_backtest.load_input import PastLoad

Floats = NDArray[np.float64]
START = 1_788_220_800.0
DAY = 86_400
_LATENCY_GRID = 400
# Standard deviations from the median to the 95th percentile of a normal distribution.
_NORMAL_P95 = 1.6449
_MEMORY = 0.95


@dataclass(frozen=True)
class Service:
    """The truth about a replica, and the days that are seen of it.

    saturation: load units per replica. reach: the peak's load per replica, as a share of the capacity. step_noise,
    stretch_noise, day_noise: standard deviations of the logarithm of the latency.
    """

    workers: int = 8
    service_ms: float = 2.0
    saturation: float = 500.0
    limit_ms: float = 20.0
    days: int = 28
    step_seconds: int = 300
    reach: float = 1.15
    step_noise: float = 0.12
    stretch_noise: float = 0.05
    day_noise: float = 0.05
    replicas: int = 4
    scales_at: float | None = None
    evening_hours: float = 3.0

    @property
    def limit(self) -> Limit:
        return Limit(self.limit_ms, "ms", "latency", "--latency-limit-ms")

    def latency_ms(self, loads: Floats) -> Floats:
        """The p95 response time at so much load per replica, without noise."""
        grid = np.linspace(0.005, 0.995, _LATENCY_GRID)
        exact = [_p95_ms(self.workers, self.service_ms, share) for share in grid]
        return np.interp(loads / self.saturation, grid, exact)

    @property
    def capacity(self) -> float:
        """The load per replica at which the latency is over the limit in 5 % of the steps."""
        noise = math.sqrt(self.step_noise**2 + self.stretch_noise**2 + self.day_noise**2)
        grid = np.linspace(0.005, 0.995, 4000) * self.saturation
        upper = self.latency_ms(grid) * math.exp(_NORMAL_P95 * noise)
        return float(grid[np.searchsorted(upper, self.limit_ms)])


@dataclass(frozen=True)
class Seen:
    """What the operator exports: one value per step; `serving` counts replicas."""

    service: Service
    load: Floats
    latency_ms: Floats
    serving: Floats

    @property
    def times(self) -> Floats:
        return START + self.service.step_seconds * np.arange(len(self.load), dtype=np.float64)

    @property
    def hours(self) -> Floats:
        """Hour of the day of each step."""
        return (self.times % DAY) / 3600

    @property
    def day(self) -> NDArray[np.int64]:
        """Day of each step, from 0."""
        return ((self.times - START) // DAY).astype(np.int64)

    def past(self, values: Floats) -> PastLoad:
        """A series of it as the command reads one: unknown values are missing points."""
        known = np.isfinite(values)
        return PastLoad(self.times[known].tolist(), values[known].tolist(), float(self.service.step_seconds))

    def slower(self, where: NDArray[np.bool_], factor: float) -> Seen:
        """The same with another latency in some steps."""
        return replace(self, latency_ms=np.where(where, factor * self.latency_ms, self.latency_ms))


def watched(service: Service, seed: int = 1) -> Seen:
    """Some days of it: an evening peak, a smaller one before noon, and scatter in everything."""
    random = np.random.default_rng(seed)
    per_day = DAY // service.step_seconds
    count = service.days * per_day
    hour = (np.arange(count) % per_day) / per_day * 24
    shape = 0.35 + 0.65 * np.exp(-(((hour - 20) / service.evening_hours) ** 2))
    shape += 0.3 * np.exp(-(((hour - 11) / 3) ** 2))
    shape *= np.exp(random.normal(0, 0.08, service.days)).repeat(per_day) * np.exp(
        random.normal(0, 0.04, count)
    )
    each = shape / np.quantile(shape, 0.995) * service.reach * service.capacity
    serving = np.full(count, float(service.replicas))
    total = each * service.replicas
    if service.scales_at is not None:
        smooth = np.convolve(total, np.ones(6) / 6, "same")
        serving = np.maximum(1.0, np.ceil(smooth / (service.scales_at * service.reach * service.capacity)))
    noise = random.normal(0, service.step_noise, count) + service.stretch_noise * _stretches(random, count)
    noise += random.normal(0, service.day_noise, service.days).repeat(per_day)
    return Seen(service, total, service.latency_ms(total / serving) * np.exp(noise), serving)


def drawn(random: np.random.Generator, *, wide: bool) -> Service:
    """A service drawn at random; `wide` draws from a wider space, other workers among them."""
    service = Service(
        workers=int(random.choice([3, 6, 12, 24] if wide else [2, 4, 8, 16])),
        service_ms=float(random.uniform(0.3, 12) if wide else random.uniform(0.5, 8)),
        saturation=float(10 ** random.uniform(1, 4)),
        days=int(random.integers(10, 43)),
        step_seconds=int(random.choice([300, 600, 900])),
        step_noise=float(random.uniform(0.02, 0.35) if wide else random.uniform(0.03, 0.25)),
        stretch_noise=float(random.uniform(0, 0.2 if wide else 0.15)),
        day_noise=float(random.uniform(0, 0.12 if wide else 0.1)),
        reach=float(random.uniform(0.7, 1.3)),
        replicas=int(random.integers(1, 7)),
        scales_at=float(random.uniform(0.6, 1.05)) if random.random() < 0.5 else None,
        evening_hours=float(random.uniform(2, 5)),
    )
    idle_ms = float(service.latency_ms(np.array([0.0]))[0])
    return replace(service, limit_ms=idle_ms * float(random.uniform(1.8, 6)))


def _p95_ms(workers: int, service_ms: float, utilisation: float) -> float:
    """Erlang C: the wait's 95th percentile, and three mean service times for the service's own (Gross and Harris)."""
    offered, blocked = utilisation * workers, 1.0
    for number in range(1, workers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    waits = blocked / (1 - utilisation + utilisation * blocked)
    wait_ms = math.log(max(waits, 1e-12) / 0.05) * service_ms / (workers * (1 - utilisation))
    return 3 * service_ms + max(0.0, wait_ms)


def _stretches(random: np.random.Generator, count: int) -> Floats:
    """Noise of deviation 1 that lasts for about 20 steps."""
    drawn = random.normal(0, math.sqrt(1 - _MEMORY**2), count)
    found = np.zeros(count)
    for at in range(1, count):
        found[at] = _MEMORY * found[at - 1] + drawn[at]
    return found
