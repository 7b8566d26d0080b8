"""The load of a deployed cluster, or of any metric, as CloudWatch has kept it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

from peaker.adapters.cloudwatch.metrics import SHORTEST_PERIOD_SECONDS, CloudWatchLoadHistory
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.domain.decoding import misfits
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.issued import LoadPoints
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Reading, Unknown
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import PastLoad, metric_load, refuse_no_load
from peaker_backtest.points import LONGEST_GAP_DAYS
from pydantic import ValidationError
from rich.console import Console

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployed_prices import deployed_prices
from peaker_cli.doctor.finding import ask
from peaker_cli.doctor.metrics import dimensions_text, similar_metrics, unit_of_no_load
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import InvalidRequest, UnknownCluster
from peaker_contract.load_settings import LoadMetricSettings

# CloudWatch answers no points in an hour to a request that begins 455 days ago: a day less is asked for.
MOST_HISTORY_DAYS = 454
_HOUR_SECONDS = 3600
_DAY_SECONDS = 86_400.0
_SIMILAR_SHOWN = 3


@dataclass(frozen=True)
class MetricOptions:
    """The metric as the command line names it; None where it says nothing. Dimensions are `NAME=VALUE`."""

    namespace: str | None = None
    metric: str | None = None
    dimension: tuple[str, ...] = ()
    statistic: str | None = None
    period_seconds: int | None = None

    @property
    def given(self) -> list[str]:
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name)]

    def over(self, configured: LoadMetricSettings | None) -> LoadMetricSettings:
        """Returns the metric to read: options win over the cluster's settings. Raises BadInput naming the option."""
        if self.metric:
            refuse_no_load("--metric", self.metric)
        wanted: dict[str, Any] = {"statistic": "Average", "period_seconds": 300, "dimensions": {}}
        if configured is not None:
            wanted |= configured.model_dump()
        asked = {
            "namespace": self.namespace,
            "name": self.metric,
            "dimensions": dimension_pairs(self.dimension, "--dimension") or None,
            "statistic": self.statistic,
            "period_seconds": self.period_seconds,
        }
        wanted |= {name: value for name, value in asked.items() if value is not None}
        for name, option in (("namespace", "--namespace"), ("name", "--metric")):
            if name not in wanted:
                raise BadInput(
                    f"--from-cloudwatch needs {option}, or --cluster with a metric in its settings"
                )
        try:
            return LoadMetricSettings.model_validate(wanted)
        except ValidationError as error:
            raise BadInput(f"the metric cannot be asked for: {shown(misfits(error))}") from None


@dataclass(frozen=True)
class Deployed:
    """A cluster as it is deployed: its settings, and the prices that hold for it."""

    settings: ClusterSettings
    prices: PriceTable

    @property
    def replica_hour(self) -> Reading:
        """Returns USD per hour of the instance; what its volumes cost depends on sizes that are not read here."""
        return self.prices.instance_hour(self.settings.instance_type)


def read_deployed(control: ControlPlane, cluster: str) -> Deployed:
    """Returns the cluster's settings and prices. Raises BadInput, and PeakerError where AWS does not answer."""
    try:
        settings = ParameterClusters(control.client("ssm"), control.environment).settings(cluster)
    except (UnknownCluster, InvalidRequest) as error:
        raise BadInput(f"{error}; check --cluster, --env and --region ({control.region})") from None
    return Deployed(settings, deployed_prices(control.client, settings, control.clock.now()))


def read_live_load(
    control: ControlPlane, metric: LoadMetricSettings, history_days: int, messages: Console
) -> PastLoad:
    """Returns the metric's newest `history_days`; hourly where five-minute points are not kept so long.

    What was read so far is shown on `messages`. Raises BadInput where there is nothing to replay, and PeakerError
    where CloudWatch does not answer, or not in full.
    """
    name = _shown_metric(metric)
    client = control.client("cloudwatch")
    # First, because its answer tells AWS's time.
    similar = ask("cloudwatch:ListMetrics", lambda: similar_metrics(client, metric))
    now = control.clock.now()
    hourly = history_days > KEPT_HISTORY_DAYS
    with messages.status(f"reading {name} from CloudWatch") as status:
        points = CloudWatchLoadHistory(client).metric_points(
            metric,
            now - timedelta(days=history_days),
            now,
            _HOUR_SECONDS if hourly else SHORTEST_PERIOD_SECONDS,
            lambda count: status.update(f"reading {name} from CloudWatch: {count:,} points"),
        )
    unit = ask("cloudwatch:GetMetricData", lambda: unit_of_no_load(client, metric, now))
    if isinstance(unit, str):
        refuse_no_load(name, unit)
    if len(points.times_seconds) < 2:
        raise BadInput(_nothing_read(control, metric, points, similar))
    return _past_load(metric, name, points, hourly)


def _past_load(metric: LoadMetricSettings, name: str, points: LoadPoints, hourly: bool) -> PastLoad:
    """Returns the points after the last gap that is too long, checked as those of a file are."""
    times, loads = points.times_seconds, points.values
    gaps = [at for at, (a, b) in enumerate(pairwise(times), 1) if b - a > LONGEST_GAP_DAYS * _DAY_SECONDS]
    begin = max(gaps, default=0)
    notes: tuple[str, ...] = ()
    if begin:
        days = (times[begin] - times[begin - 1]) / _DAY_SECONDS
        notes = (f"{begin:,} points before {days:.0f} days without any are left out",)
    load = metric_load(f"{name} in CloudWatch", metric.name, times[begin:], loads[begin:], notes)
    said = []
    if load.period_seconds > max(points.period_seconds, metric.period_seconds):
        said.append(
            f"points come every {load.period_seconds / 60:g} min, not every {metric.period_seconds / 60:g}: in a "
            f"cluster's settings, load_metric.period_seconds should be {load.period_seconds:g}"
        )
    if hourly and metric.statistic != "Maximum":
        said.append(
            f"beyond {KEPT_HISTORY_DAYS} days CloudWatch keeps hours: peaks within one, and shortage in them, are "
            "not seen"
        )
    return replace(load, read=(*load.read, *said))


def _nothing_read(
    control: ControlPlane,
    metric: LoadMetricSettings,
    points: LoadPoints,
    similar: Sequence[Mapping[str, str]] | Unknown,
) -> str:
    found = "no point" if not points.times_seconds else "one point"
    text = f"CloudWatch has {found} of {_shown_metric(metric)} in {control.region}"
    if isinstance(similar, Unknown) or not similar:
        return (
            f"{text}, and no metric of that name was written in the last two weeks: check --namespace, --metric, "
            "--region and --profile, or load_metric of the cluster"
        )
    if any(dict(one) == dict(metric.dimensions) for one in similar):
        return f"{text}, though the metric is there: check --statistic, or wait until it has a history"
    others = "; ".join(_shown_dimensions(one) for one in similar[:_SIMILAR_SHOWN])
    more = f" and {len(similar) - _SIMILAR_SHOWN} more" if len(similar) > _SIMILAR_SHOWN else ""
    return f"{text}; that name is there with {others}{more}: give one of these with --dimension NAME=VALUE"


def _shown_metric(metric: LoadMetricSettings) -> str:
    dimensions = _shown_dimensions(metric.dimensions)
    return f"{metric.statistic} of {shown(metric.namespace)} {shown(metric.name)} with {dimensions}"


def _shown_dimensions(dimensions: Mapping[str, str]) -> str:
    return shown(dimensions_text(dimensions))


def dimension_pairs(dimensions: tuple[str, ...], option: str) -> dict[str, str]:
    """Returns the dimensions from NAME=VALUE of each. Raises BadInput naming the option."""
    found: dict[str, str] = {}
    for one in dimensions:
        name, separator, value = one.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} {shown(one)} is none; give it as NAME=VALUE, e.g. Cluster=orders")
        if name in found:
            raise BadInput(f"{option} {shown(name)} is given twice: keep one")
        found[name] = value
    return found
