"""CloudWatch's calls for metrics, with AWS's time limits.

A period starts at a multiple of its length, as in AWS. Metric math is refused with an error rather than answered
with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from localcloud.extensions.cloudwatch.metric_store import MetricKey, MetricStore, Sample, metric_key

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

OLDEST = timedelta(weeks=2)  # PutMetricData, botocore's model: "up to two weeks in the past"
NEWEST = timedelta(hours=2)  # and "up to two hours into the future"
LARGEST_ANSWER = 100_800  # points per GetMetricData call
# botocore, `MetricStat.Period`: how old a request's start may be where its period is a multiple of so many seconds.
KEPT = (
    (3600, timedelta(days=455)),
    (300, timedelta(days=63)),
    (60, timedelta(days=15)),
    (1, timedelta(hours=3)),
)


def load_history(
    cloud: OpenCloud,
    namespace: str,
    name: str,
    dimensions: Mapping[str, str],
    points: Iterable[tuple[datetime, float]],
    unit: str | None = None,
) -> None:
    """Load past points of any age, which PutMetricData would refuse: a cluster that has been there for months."""
    key = metric_key(namespace, name, dimensions)
    cloud.metrics.put(key, ((at.timestamp(), Sample(float(value))) for at, value in points), unit)


def install(cloud: OpenCloud) -> None:
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
            if datum.get("StatisticValues"):
                raise InvalidParameterValue("The local cloud has no sets of statistics.")
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
        now = cloud.clock.now()
        results = [_metric_result(store, query, start, end, scan_by, now) for query in queries]
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
        name, period = self._get_param("MetricName"), int(self._get_param("Period"))
        key = metric_key(self._get_param("Namespace"), name, self._get_param("Dimensions", []))
        points: dict[float, dict[str, Any]] = {}
        for wanted in self._get_param("Statistics"):
            for at, value in _periods(store, key, start, end, period, wanted, cloud.clock.now()):
                blank = {"Timestamp": _naive(at), "Unit": store.unit(key) or "None"}
                points.setdefault(at, blank)[wanted] = value
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
    store: MetricStore, query: dict[str, Any], start: datetime, end: datetime, scan_by: str, now: datetime
) -> dict[str, Any]:
    from moto.cloudwatch.exceptions import ValidationError

    if "MetricStat" not in query:
        raise ValidationError(
            f"The local cloud has no metric math (MetricDataQueries id {query['Id']}: {query.get('Expression')!r})."
        )
    wanted, metric = query["MetricStat"], query["MetricStat"]["Metric"]
    key = metric_key(metric["Namespace"], metric["MetricName"], metric.get("Dimensions"))
    points = _periods(store, key, start, end, int(wanted["Period"]), wanted["Stat"], now)
    if wanted.get("Unit") not in (None, store.unit(key) or "None"):
        points = []
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
    store: MetricStore, key: MetricKey, start: datetime, end: datetime, period: int, name: str, now: datetime
) -> list[tuple[float, float]]:
    """Answers no points, and no error, when the start is older than CloudWatch keeps such a period, as AWS does."""
    from moto.cloudwatch.exceptions import ValidationError

    if period < 1 or (period >= 60 and period % 60) or (period < 60 and period not in (1, 5, 10, 20, 30)):
        raise ValidationError(f"Period {period}: must be 1, 5, 10, 20, 30 or a multiple of 60.")
    kept = next(age for seconds, age in KEPT if period % seconds == 0)
    if now - start >= kept:
        return []
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
