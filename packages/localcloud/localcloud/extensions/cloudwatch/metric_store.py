"""Published values by metric: found fast over months of points, and summed up as CloudWatch does, percentiles too.

Points are kept as they came.
"""

from __future__ import annotations

import bisect
import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PERCENTILE = re.compile(r"^p(\d{1,2}(?:\.\d{1,10})?|100)$")

MetricKey = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Sample:
    """One published value with how often it was seen."""

    value: float
    count: float = 1.0


@dataclass
class Series:
    """The points of one metric, in order of time."""

    unit: str | None = None
    times: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, at: float, sample: Sample) -> None:
        index = len(self.times)
        if self.times and at < self.times[-1]:
            index = bisect.bisect_right(self.times, at)
        self.times.insert(index, at)
        self.samples.insert(index, sample)

    def between(self, start: float, end: float) -> list[Sample]:
        """Samples with start <= time < end."""
        return self.samples[bisect.bisect_left(self.times, start) : bisect.bisect_left(self.times, end)]


def statistic(samples: Sequence[Sample], name: str) -> float:
    """A CloudWatch statistic of at least one sample. Raises ValueError for one that CloudWatch (or we) lack."""
    if name == "SampleCount":
        return sum(sample.count for sample in samples)
    if name == "Sum":
        return sum(sample.value * sample.count for sample in samples)
    if name == "Average":
        return sum(sample.value * sample.count for sample in samples) / sum(
            sample.count for sample in samples
        )
    if name == "Minimum":
        return min(sample.value for sample in samples)
    if name == "Maximum":
        return max(sample.value for sample in samples)
    match = PERCENTILE.match(name)
    if match:
        return _percentile(samples, float(match.group(1)))
    raise ValueError(
        f"the local cloud has no statistic {name!r}; it has Average, Sum, Minimum, Maximum, SampleCount, pNN"
    )


def _percentile(samples: Sequence[Sample], percent: float) -> float:
    """Linear interpolation between the closest ranks of the weighted values."""
    values: list[float] = []
    for sample in sorted(samples, key=lambda item: item.value):
        values.extend([sample.value] * max(1, round(sample.count)))
    position = (len(values) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (position - low)


class MetricStore:
    """All metrics of one cloud. Safe to use from many threads."""

    def __init__(self) -> None:
        self._series: dict[MetricKey, Series] = {}
        self._lock = threading.Lock()

    def put(self, key: MetricKey, points: Iterable[tuple[float, Sample]], unit: str | None = None) -> None:
        with self._lock:
            series = self._series.setdefault(key, Series())
            series.unit = unit or series.unit
            for at, sample in points:
                series.add(at, sample)

    def forget(self, key: MetricKey) -> None:
        """As if nothing had been published: a test's new load was there all along."""
        with self._lock:
            self._series.pop(key, None)

    def between(self, key: MetricKey, start: float, end: float) -> list[Sample]:
        with self._lock:
            series = self._series.get(key)
            return series.between(start, end) if series else []

    def periods(
        self, key: MetricKey, start: float, end: float, period: int, name: str
    ) -> list[tuple[float, float]]:
        """(start of period, statistic) for each period with data in [start, end), ascending."""
        with self._lock:
            series = self._series.get(key)
            if series is None:
                return []
            low, high = bisect.bisect_left(series.times, start), bisect.bisect_left(series.times, end)
            grouped: dict[float, list[Sample]] = {}
            for at, sample in zip(series.times[low:high], series.samples[low:high], strict=True):
                grouped.setdefault(at // period * period, []).append(sample)
        return [(at, statistic(samples, name)) for at, samples in sorted(grouped.items())]

    def metrics(self) -> list[MetricKey]:
        with self._lock:
            return list(self._series)

    def unit(self, key: MetricKey) -> str | None:
        with self._lock:
            series = self._series.get(key)
            return series.unit if series else None

    def count(self) -> int:
        """Points in all metrics together."""
        with self._lock:
            return sum(len(series.times) for series in self._series.values())


def metric_key(namespace: str, name: str, dimensions: Any) -> MetricKey:
    """The identity of a metric. dimensions: a mapping, or AWS's list of {Name, Value}."""
    if isinstance(dimensions, Mapping):
        pairs = [(str(key), str(value)) for key, value in dimensions.items()]
    else:
        pairs = [(str(item["Name"]), str(item["Value"])) for item in dimensions or []]
    return namespace, name, tuple(sorted(pairs))
