"""The measure of a service, and how many of a cluster's replicas served, as CloudWatch has kept them.

AWS/EC2 CPUUtilization is of one instance: that of a base replica says what a replica takes, as long as the read
endpoint shares evenly. Peak replicas are other instances each day, and are not read. How many served is the cluster's
own metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated

from peaker.adapters.cloudwatch.metric_data import metric_query, read_points
from peaker.adapters.cloudwatch.metrics import SHORTEST_PERIOD_SECONDS
from peaker.domain.contract import misfits
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.reading import Unknown
from peaker_backtest.capacity.measure_input import MEASURE, SERVING
from peaker_backtest.errors import BadInput, shown
from peaker_backtest.load_input import PastLoad, metric_load
from peaker_backtest.points import Column
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from peaker_cli.backtest.live_load import dimension_pairs
from peaker_cli.control_plane import ControlPlane
from peaker_contract.metrics import CLUSTER_DIMENSION, Metric, namespace

_HOUR_SECONDS = 3600
# Percentiles as CloudWatch writes them (botocore, Statistic), and the two of the others that are a service's answer.
_STATISTIC = re.compile(r"Average|Maximum|Minimum|p\d{1,2}(\.\d{1,2})?", re.ASCII)
_Text = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^:\x00-\x1f][\x20-\x7e]*$")]


class MeasureMetric(BaseModel):
    """A metric of CloudWatch by its namespace, name, dimensions and statistic."""

    model_config = ConfigDict(frozen=True)

    namespace: _Text
    name: _Text
    dimensions: Mapping[_Text, Annotated[str, Field(min_length=1, max_length=1024)]] = Field(max_length=30)
    statistic: str

    @classmethod
    def named(
        cls, name_space: str | None, name: str | None, dimensions: tuple[str, ...], statistic: str | None
    ) -> MeasureMetric:
        """The metric as options name it. Raises BadInput naming the option."""
        for option, value in (("--measure-namespace", name_space), ("--measure-metric", name)):
            if not value:
                raise BadInput(f"a metric has a namespace and a name: give {option}", field=option)
        statistic = statistic or "Average"
        if not _STATISTIC.fullmatch(statistic):
            raise BadInput(
                f"--measure-statistic is {shown(statistic)}; give Average, Maximum, Minimum or a percentile such as "
                f"p95",
                field="--measure-statistic",
            )
        pairs = dimension_pairs(dimensions, "--measure-dimension")
        try:
            return cls.model_validate(
                {"namespace": name_space, "name": name, "dimensions": pairs, "statistic": statistic}
            )
        except ValidationError as error:
            raise BadInput(f"the measure cannot be asked for: {shown(misfits(error))}") from None

    def __str__(self) -> str:
        pairs = ", ".join(f"{name}={value}" for name, value in sorted(self.dimensions.items()))
        return shown(f"{self.statistic} of {self.namespace} {self.name} with {pairs or 'no dimension'}")


def read_measure(control: ControlPlane, metric: MeasureMetric, history_days: int) -> PastLoad:
    """The measure's newest days. Raises BadInput where there is none, and PeakerError where AWS does not answer."""
    return _read(control, metric, history_days, MEASURE, lambda _: True)


def read_serving(control: ControlPlane, cluster: str, history_days: int) -> PastLoad | Unknown:
    """Reads the cluster's number of serving replicas, as `forecast_load` published it; unknown where that is
    not enough.
    """
    metric = MeasureMetric(
        namespace=namespace(control.environment),
        name=Metric.SERVING_REPLICAS.value,
        dimensions={CLUSTER_DIMENSION: cluster},
        statistic="Average",
    )
    try:
        return _read(control, metric, history_days, SERVING, lambda value: value >= 1)
    except BadInput as refused:
        return Unknown(f"{refused}; give --serving")


def _read(
    control: ControlPlane,
    metric: MeasureMetric,
    history_days: int,
    column: Column,
    usable: Callable[[float], bool],
) -> PastLoad:
    now: datetime = control.clock.now()
    period = _HOUR_SECONDS if history_days > KEPT_HISTORY_DAYS else SHORTEST_PERIOD_SECONDS
    query = metric_query(metric.namespace, metric.name, metric.dimensions, metric.statistic, period)
    points = [
        (at.timestamp(), value)
        for at, value in read_points(
            control.client("cloudwatch"), query, now - timedelta(days=history_days), now
        )
        if usable(value)
    ]
    if len(points) < 2:
        raise BadInput(f"CloudWatch has no points of {metric} in {control.region}", field=column.option)
    return metric_load(
        f"{metric} in CloudWatch",
        metric.name,
        [at for at, _ in points],
        [value for _, value in points],
        column=column,
    )
