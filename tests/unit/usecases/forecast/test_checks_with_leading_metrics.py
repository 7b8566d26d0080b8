"""A scheduled check of a cluster that names leading metrics: what is read, what the decision and the report say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from peaker.domain.issued import LoadPoints
from peaker.ports import ForecastPorts
from peaker.usecases.forecast.forecast_load import ForecastReport, forecast_load

from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsUnavailable, PeakerError, Throttled
from peaker_contract.load_settings import LoadMetricSettings
from tests.support.builders import orders, with_cluster
from tests.support.fakes import fake_ports
from tests.support.forecast_fakes import FakeForecastRecords
from tests.unit.domain.leading.drawn import Floats

STEP, PER_HOUR = 1800, 2
DAYS, LAG_HOURS, BURST_HOURS = 56, 2, 3
LOGINS = {
    "label": "logins", "namespace": "Shop", "name": "Logins", "statistic": "Sum", "period_seconds": 300,
    "dimensions": {"Service": "shop"},
}  # fmt: skip


def load_and_logins(rises_in_hours: float | None) -> tuple[Floats, Floats]:
    """Bursts of three hours at random times, which logins show two hours before; one more is coming."""
    random = np.random.default_rng(4)
    count = DAYS * 24 * PER_HOUR
    bursts = np.zeros(count + 48)
    for day in range(DAYS - 2):
        if random.random() < 0.6:
            first = (day * 24 + int(random.integers(0, 20))) * PER_HOUR
            bursts[first : first + BURST_HOURS * PER_HOUR] = random.uniform(0.7, 0.9)
    if rises_in_hours is not None:
        bursts[count + int(rises_in_hours * PER_HOUR) :] = 0.8
    lag = LAG_HOURS * PER_HOUR
    load = 60 * np.exp(bursts[:count] + random.normal(0, 0.04, count))
    logins = 900 * np.exp(bursts[lag : lag + count] + random.normal(0, 0.06, count))
    return load, logins


@dataclass
class History:
    load: Floats
    logins: Floats
    refused: PeakerError | None = None
    asked: list[str] = field(default_factory=list)

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        return self._points(self.load, end)

    def metric_points(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        self.asked.append(metric.name)
        if self.refused is not None:
            raise self.refused
        return self._points(self.logins, end)

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        return LoadPoints([], [], metric.period_seconds)

    def _points(self, values: Floats, end: datetime) -> LoadPoints:
        times = [end.timestamp() - (len(values) - at) * STEP for at in range(len(values))]
        return LoadPoints(times, list(values), float(STEP))


class Silent:
    def publish(self, *_: Any) -> None:
        """What is published is another test's."""


def check(history: History, *metrics: dict[str, Any]) -> ForecastReport:
    common = with_cluster(fake_ports(orders(leading_metrics=list(metrics))))
    ports = ForecastPorts(common, history, Silent(), FakeForecastRecords())
    return forecast_load(ports, "orders")


def of_logins(report: ForecastReport) -> str:
    (said,) = [one for one in report.reasons if one.startswith("leading metric ")]
    return said


def test_a_rise_that_logins_foretell_is_built_for_and_named() -> None:
    history = History(*load_and_logins(rises_in_hours=0.5))
    plain, aware = check(history), check(history, LOGINS)
    assert plain.action == "none"
    assert (aware.action, aware.shortage) == ("scale_out", 1)
    assert re.search(
        r"with logins above its usual, which leads by 120 min \(as far as x\d\.\d\d\)", aware.reason
    )
    assert aware.numbers["leading_factor"] == pytest.approx(1.9, rel=0.2)
    assert of_logins(aware).startswith("leading metric logins: used (lag 120 min), now up to x")


def test_without_a_rise_only_the_report_differs() -> None:
    history = History(*load_and_logins(rises_in_hours=None))
    plain, aware = check(history), check(history, LOGINS)
    assert (aware.reason, aware.numbers) == (plain.reason, plain.numbers)
    assert of_logins(aware).startswith("leading metric logins: used (lag 120 min), now at its usual: on ")


def test_a_metric_that_is_not_proven_is_reported_and_changes_nothing() -> None:
    history = History(*load_and_logins(rises_in_hours=0.5))
    history.logins = 100 * np.exp(np.random.default_rng(1).normal(0, 0.4, len(history.logins)))
    plain, aware = check(history), check(history, LOGINS)
    assert (aware.reason, aware.numbers) == (plain.reason, plain.numbers)
    assert of_logins(aware).startswith("leading metric logins: not used")


@pytest.mark.parametrize("refusal", [Throttled, AwsUnavailable])
def test_a_metric_that_cannot_be_read_is_unknown_and_the_check_goes_on(refusal: type[PeakerError]) -> None:
    history = History(
        *load_and_logins(rises_in_hours=0.5), refused=refusal("cloudwatch:GetMetricData: later")
    )
    plain, aware = check(history), check(history, LOGINS)
    assert (aware.reason, aware.numbers) == (plain.reason, plain.numbers)
    assert of_logins(aware) == (
        "leading metric logins: not used: it could not be read: cloudwatch:GetMetricData: later"
    )


def test_each_metric_is_read_once_and_none_where_none_is_named() -> None:
    history = History(*load_and_logins(rises_in_hours=None))
    check(history)
    assert history.asked == []
    check(history, LOGINS, {**LOGINS, "label": "queue", "name": "QueueLength"})
    assert history.asked == ["Logins", "QueueLength"]
