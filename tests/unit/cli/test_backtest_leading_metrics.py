"""The leading metrics of a deployed cluster, as CloudWatch has kept them, for a backtest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from peaker.domain.planning.prices import US_EAST_1
from peaker_cli.backtest.leading_series import leading_metrics
from peaker_cli.backtest.live_load import Deployed
from peaker_cli.backtest.service_observations import Loaded

from peaker_backtest.leading.metric_input import PastMetric
from peaker_backtest.load_input import Choices, PastLoad
from peaker_contract.errors import AwsUnavailable
from tests.support.builders import orders
from tests.support.kept_metrics import KeptMetrics
from tests.unit.cli.test_backtest_from_cloudwatch import NOW, every

LOGINS = {
    "label": "logins", "namespace": "Shop", "name": "Logins", "statistic": "Sum", "period_seconds": 60,
    "dimensions": {"Service": "shop"},
}  # fmt: skip


def of_cluster(cloudwatch: KeptMetrics, *metrics: dict[str, Any], days: int = 62) -> tuple[PastMetric, ...]:
    control: Any = SimpleNamespace(client=lambda _: cloudwatch, clock=SimpleNamespace(now=lambda: NOW))
    deployed = Deployed(orders(leading_metrics=list(metrics)), US_EAST_1)
    load = PastLoad([0.0, 300.0], [1.0, 1.0], 300.0)
    return leading_metrics((), Loaded("orders", load, None, control, "orders", deployed, days), Choices())


def test_each_is_read_as_far_back_as_the_load() -> None:
    cloudwatch = KeptMetrics(every(300, 63))
    (logins,) = of_cluster(cloudwatch, LOGINS)
    assert (logins.name, logins.period_seconds, len(logins.values)) == ("logins", 300.0, 62 * 288)
    (asked,) = cloudwatch.asked
    metric = asked["MetricDataQueries"][0]["MetricStat"]["Metric"]
    assert (metric["Namespace"], metric["MetricName"]) == ("Shop", "Logins")
    assert logins.read == ("leading metric logins: 17,856 points in CloudWatch",)


def test_beyond_62_days_it_is_read_in_hours_like_the_load() -> None:
    (logins,) = of_cluster(KeptMetrics(every(3600, 100)), LOGINS, days=100)
    assert logins.period_seconds == 3600.0


def test_a_cluster_without_any_asks_nothing() -> None:
    cloudwatch = KeptMetrics()
    assert of_cluster(cloudwatch) == ()
    assert cloudwatch.asked == []


def test_half_an_answer_makes_no_backtest() -> None:
    with pytest.raises(AwsUnavailable):
        of_cluster(KeptMetrics(every(300, 63), ends_with="InternalError"), LOGINS)
