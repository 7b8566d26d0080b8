"""The load that a retirement is judged by, while a period of the metric runs (I8)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import pytest
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.domain.reading import Known, Unknown

from localcloud.server import LocalCloud
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import LoadMetricSettings
from tests.contract.conftest import NUMBERS, put_metric
from tests.support.builders import orders

PERIOD = timedelta(seconds=300)
A_MOMENT = timedelta(seconds=10)


@pytest.fixture
def midnight(ledger_cloud: LocalCloud) -> datetime:
    """A period begins."""
    return ledger_cloud.clock.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


def counted(statistic: str) -> ClusterSettings:
    """A cluster whose load metric nobody has published yet."""
    metric = LoadMetricSettings.model_validate(
        {
            "namespace": "Shop",
            "name": "Queries",
            "statistic": statistic,
            "period_seconds": int(PERIOD.total_seconds()),
            "dimensions": {"Cluster": f"orders-{next(NUMBERS)}"},
        }
    )
    return orders().model_copy(update={"load_metric": metric})


def publisher(cloud: LocalCloud, settings: ClusterSettings) -> Callable[[datetime, float], None]:
    metric, cloudwatch = settings.load_metric, cloud.client("cloudwatch")
    return partial(put_metric, cloudwatch, metric.namespace, metric.name, metric.dimensions)


def load_a_moment_after(
    midnight: datetime, cloud: LocalCloud, statistic: str, points: list[tuple[datetime, float]]
) -> float:
    settings = counted(statistic)
    measure = publisher(cloud, settings)
    for at, value in points:
        measure(at, value)
    found = CloudWatchReadings(cloud.client("cloudwatch")).load(settings, midnight + A_MOMENT)
    assert isinstance(found, Known)
    return found.value


@pytest.mark.parametrize(
    ("statistic", "running", "load"),
    [
        ("Sum", 300, 90_000),
        ("SampleCount", 300, 2),
        ("Average", 300, 45_000),
        ("Sum", 120_000, 120_000),
        ("Average", 60_000, 60_000),
    ],
)
def test_a_period_that_has_just_begun_hides_no_load_and_shows_more_of_it(
    ledger_cloud: LocalCloud, midnight: datetime, statistic: str, running: float, load: float
) -> None:
    """Ten seconds after a period began its Sum was next to nothing, and a replica could go under full load."""
    halves = [(midnight - number * PERIOD / 2, 45_000.0) for number in range(1, 5)]
    assert (
        load_a_moment_after(midnight, ledger_cloud, statistic, [*halves, (midnight + A_MOMENT / 2, running)])
        == load
    )


@pytest.mark.parametrize(("statistic", "load"), [("Sum", 90_000), ("SampleCount", 2), ("Average", 45_000)])
def test_a_sum_that_is_still_being_filled_hides_no_load(
    ledger_cloud: LocalCloud, midnight: datetime, statistic: str, load: float
) -> None:
    """Each minute's figures come in the minute after: of the period that has just ended, half are there."""
    halves = [(midnight - number * PERIOD / 2, 45_000.0) for number in range(2, 5)]
    assert load_a_moment_after(midnight, ledger_cloud, statistic, halves) == load


def test_without_a_period_that_has_ended_the_load_is_unknown(
    ledger_cloud: LocalCloud, midnight: datetime
) -> None:
    """A part of a period says nothing of the load, nor does what is older than three periods (I4)."""
    settings = counted("Sum")
    measure, readings = (
        publisher(ledger_cloud, settings),
        CloudWatchReadings(ledger_cloud.client("cloudwatch")),
    )
    measure(midnight, 300)
    assert isinstance(readings.load(settings, midnight + A_MOMENT), Unknown)
    assert isinstance(readings.load(settings, midnight + 4 * PERIOD - A_MOMENT), Known)
    assert isinstance(readings.load(settings, midnight + 4 * PERIOD + timedelta(minutes=2)), Unknown)
