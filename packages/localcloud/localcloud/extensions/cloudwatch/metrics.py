"""CloudWatch metrics: a store that answers fast over months of points, percentiles, and AWS's time limits.

Points are kept as they came. A period starts at a multiple of its length, as in AWS. Metric math is refused with
an error rather than answered with nothing.
"""

from __future__ import annotations

import bisect
import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

OLDEST = timedelta(weeks=2)  # PutMetricData, botocore's model: "up to two weeks in the past"
NEWEST = timedelta(hours=2)  # and "up to two hours into the future"
LARGEST_ANSWER = 100_800  # points per GetMetricData call
PERCENTILE = re.compile(r"^p(\d{1,2}(?:\.\d{1,10})?|100)$")

MetricKey = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Sample:
    """One published value with how often it was seen, or a statistic set (then value is its average)."""

    value: float
    count: float = 1.0
    minimum: float | None = None
    maximum: float | None = None

    @property
    def low(self) -> float:
        return self.value if self.minimum is None else self.minimum

    @property
    def high(self) -> float:
        return self.value if self.maximum is None else self.maximum


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
        return min(sample.low for sample in samples)
    if name == "Maximum":
        return max(sample.high for sample in samples)
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


def load_history(
    cloud: LocalCloud,
    namespace: str,
    name: str,
    dimensions: Mapping[str, str],
    points: Iterable[tuple[datetime, float]],
    unit: str | None = None,
) -> None:
    """Load past points of any age, which PutMetricData would refuse: a cluster that has been there for months."""
    key = metric_key(namespace, name, dimensions)
    cloud.metrics.put(key, ((at.timestamp(), Sample(float(value))) for at, value in points), unit)


def install(cloud: LocalCloud) -> None:
    """Keep and answer metrics here instead of in moto's list."""
    from moto.cloudwatch.exceptions import InvalidParameterValue, ValidationError
    from moto.cloudwatch.models import CloudWatchBackend, MetricDatumBase
    from moto.cloudwatch.responses import CloudWatchResponse
    from moto.core.responses import ActionResult

    store = cloud.metrics

    def put_metric_data(self: Any, namespace: str, metric_data: list[dict[str, Any]]) -> None:
        now = cloud.clock.now()
        batch = []
        for number, datum in enumerate(metric_data, start=1):
            self._validate_parameters_put_metric_data(datum, number)
            at = _aware(datum.get("Timestamp")) or now
            where = f"The parameter MetricData.member.{number}.Timestamp must specify a time"
            if at < now - OLDEST:
                raise InvalidParameterValue(f"{where} no more than two weeks in the past.")
            if at > now + NEWEST:
                raise InvalidParameterValue(f"{where} no more than two hours in the future.")
            key = metric_key(namespace, datum["MetricName"], datum.get("Dimensions"))
            batch.append((key, [(at.timestamp(), sample) for sample in _samples(datum)], datum.get("Unit")))
        for key, points, unit in batch:
            store.put(key, points, unit)

    def get_metric_data(
        self: Any, queries: list[dict[str, Any]], start_time: Any, end_time: Any, scan_by: str = ""
    ) -> list[dict[str, Any]]:
        start, end = _aware(start_time), _aware(end_time)
        if start is None or end is None or start >= end:
            raise ValidationError("The parameter EndTime must be greater than StartTime.")
        results = [_metric_result(store, query, start, end, scan_by) for query in queries]
        shown = [
            result for result, query in zip(results, queries, strict=True) if query.get("ReturnData", True)
        ]
        if sum(len(result["values"]) for result in shown) > LARGEST_ANSWER:
            raise ValidationError(
                f"The local cloud answers at most {LARGEST_ANSWER} points at once: split the time."
            )
        return shown

    def get_metric_statistics(self: Any) -> Any:
        start, end = _aware(self._get_param("StartTime")), _aware(self._get_param("EndTime"))
        if start is None or end is None or start >= end:
            raise InvalidParameterValue("The parameter StartTime must be less than the parameter EndTime.")
        plain, extended = (
            self._get_param("Statistics", []) or [],
            self._get_param("ExtendedStatistics", []) or [],
        )
        if not plain and not extended:
            raise InvalidParameterValue("Must specify either Statistics or ExtendedStatistics")
        name = self._get_param("MetricName")
        key = metric_key(self._get_param("Namespace"), name, self._get_param("Dimensions", []))
        points: dict[float, dict[str, Any]] = {}
        for wanted in (*plain, *extended):
            for at, value in _periods(store, key, start, end, int(self._get_param("Period")), wanted):
                blank = {"Timestamp": _naive(at), "Unit": store.unit(key) or "None"}
                point = points.setdefault(at, blank)
                target = point if wanted in plain else point.setdefault("ExtendedStatistics", {})
                target[wanted] = value
        return ActionResult({"Label": name, "Datapoints": [points[at] for at in sorted(points)]})

    def get_filtered_metrics(self: Any, metric_name: str, namespace: str, dimensions: Any) -> list[Any]:
        found = []
        for known_namespace, known_name, known_dimensions in store.metrics():
            pairs = [{"Name": key, "Value": value} for key, value in known_dimensions]
            datum = MetricDatumBase(known_namespace, known_name, pairs, None)
            if datum.filter(namespace=namespace, name=metric_name, dimensions=dimensions or []):
                found.append(datum)
        return found

    cloud.patch(CloudWatchBackend, "put_metric_data", put_metric_data)
    cloud.patch(CloudWatchBackend, "get_metric_data", get_metric_data)
    cloud.patch(CloudWatchBackend, "get_filtered_metrics", get_filtered_metrics)
    cloud.patch(CloudWatchResponse, "get_metric_statistics", get_metric_statistics)


def _metric_result(
    store: MetricStore, query: dict[str, Any], start: datetime, end: datetime, scan_by: str
) -> dict[str, Any]:
    from moto.cloudwatch.exceptions import ValidationError

    if "MetricStat" not in query:
        raise ValidationError(
            f"The local cloud has no metric math (MetricDataQueries id {query['Id']}: {query.get('Expression')!r})."
        )
    wanted, metric = query["MetricStat"], query["MetricStat"]["Metric"]
    key = metric_key(metric["Namespace"], metric["MetricName"], metric.get("Dimensions"))
    points = _periods(store, key, start, end, int(wanted["Period"]), wanted["Stat"])
    if scan_by == "TimestampDescending":
        points = points[::-1]
    return {
        "id": query["Id"],
        "label": query.get("Label") or metric["MetricName"],
        "values": [value for _, value in points],
        "timestamps": [_naive(at) for at, _ in points],
        "status_code": "Complete",
    }


def _periods(
    store: MetricStore, key: MetricKey, start: datetime, end: datetime, period: int, name: str
) -> list[tuple[float, float]]:
    from moto.cloudwatch.exceptions import ValidationError

    if period < 1 or (period >= 60 and period % 60) or (period < 60 and period not in (1, 5, 10, 20, 30)):
        raise ValidationError(f"Period {period}: must be 1, 5, 10, 20, 30 or a multiple of 60.")
    aligned = start.timestamp() // period * period
    try:
        return store.periods(key, aligned, end.timestamp(), period, name)
    except ValueError as error:
        raise ValidationError(str(error)) from error


def _samples(datum: dict[str, Any]) -> list[Sample]:
    if datum.get("Values"):
        counts = datum.get("Counts") or [1.0] * len(datum["Values"])
        return [
            Sample(float(value), float(count)) for value, count in zip(datum["Values"], counts, strict=True)
        ]
    if datum.get("StatisticValues"):
        stats = {name: float(value) for name, value in datum["StatisticValues"].items()}
        average = stats["Sum"] / stats["SampleCount"] if stats["SampleCount"] else 0.0
        return [Sample(average, stats["SampleCount"], stats["Minimum"], stats["Maximum"])]
    return [Sample(float(datum.get("Value", 0.0)))]


def _aware(moment: Any) -> datetime | None:
    if moment is None or moment == "":
        return None
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if isinstance(moment, int | float):
        return datetime.fromtimestamp(moment, UTC)
    aware: datetime = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return aware


def _naive(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None)
