"""The leading metrics of a backtest: from files, or those of a deployed cluster from CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from peaker.adapters.cloudwatch.metrics import SHORTEST_PERIOD_SECONDS, CloudWatchLoadHistory
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.leading.metric_input import PastMetric, parse_metric
from peaker_backtest.load_input import Choices, file_bytes
from peaker_cli.backtest.service_observations import Loaded

_HOUR_SECONDS = 3600


def leading_metrics(files: Sequence[Path], loaded: Loaded, choices: Choices) -> tuple[PastMetric, ...]:
    """Those of the files, else of the cluster's settings. Raises BadInput; PeakerError where AWS does not answer."""
    if files:
        return tuple(_of_file(path, choices) for path in files)
    return tuple(_of_cluster(loaded))


def _of_file(path: Path, choices: Choices) -> PastMetric:
    if str(path) == "-":
        raise BadInput("--leading takes a file; standard input is the load's", field="--leading")
    return parse_metric(path.stem, shown(str(path)), file_bytes(path), choices)


def _of_cluster(loaded: Loaded) -> Iterator[PastMetric]:
    """As far back as the load was read, in points as far apart."""
    if loaded.control is None or loaded.deployed is None or not loaded.deployed.settings.leading_metrics:
        return
    history, now = CloudWatchLoadHistory(loaded.control.client("cloudwatch")), loaded.control.clock.now()
    hourly = loaded.history_days > KEPT_HISTORY_DAYS
    for metric in loaded.deployed.settings.leading_metrics:
        points = history.metric_points(
            metric,
            now - timedelta(days=loaded.history_days),
            now,
            _HOUR_SECONDS if hourly else SHORTEST_PERIOD_SECONDS,
        )
        read = f"leading metric {shown(metric.label)}: {len(points.values):,} points in CloudWatch"
        yield PastMetric(metric.label, points.times_seconds, points.values, points.period_seconds, (read,))
