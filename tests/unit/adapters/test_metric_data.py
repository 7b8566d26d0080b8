"""A metric's points come whole or not at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.adapters.cloudwatch.metric_data import metric_query, read_points

from peaker_contract.errors import AwsCallRejected, AwsUnavailable, Throttled
from tests.support.kept_metrics import KeptMetrics

CLOUDWATCH = KeptMetrics()
BEGIN = CLOUDWATCH.now - timedelta(hours=1)
POINTS = [(BEGIN.timestamp() + 300 * number, float(number)) for number in range(12)]
QUERY = metric_query("Shop", "Reads", {"Cluster": "orders"}, "Average", 300)


def read(cloudwatch: Any, **more: Any) -> list[float]:
    return [value for _, value in read_points(cloudwatch, QUERY, BEGIN, CLOUDWATCH.now, **more)]


def test_partial_answers_with_more_pages_are_put_together() -> None:
    assert read(KeptMetrics(POINTS, page_points=5)) == [value for _, value in POINTS]


def test_it_is_told_how_many_points_there_are_after_each_page() -> None:
    told: list[int] = []
    read(KeptMetrics(POINTS, page_points=5), page_read=told.append)
    assert told == [5, 10, 12]


@pytest.mark.parametrize("status", ["PartialData", "InternalError"])
def test_an_answer_that_ends_before_the_points_do_is_none(status: str) -> None:
    with pytest.raises(AwsUnavailable, match=f"ends with {status} after 12 points; try later"):
        read(KeptMetrics(POINTS, ends_with=status, message="try later"))


def test_a_metric_that_one_may_not_read_is_refused() -> None:
    with pytest.raises(AwsCallRejected, match="Forbidden; not yours"):
        read(KeptMetrics(ends_with="Forbidden", message="not yours"))


def test_a_page_that_repeats_a_point_does_not_double_it() -> None:
    assert read(KeptMetrics([*POINTS, *POINTS], page_points=5)) == [value for _, value in POINTS]


def test_throttling_is_an_error_to_wait_for() -> None:
    class Throttling(KeptMetrics):
        def _pages(self, **_: Any) -> Any:
            answer: Any = {"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}
            raise ClientError(answer, "GetMetricData")
            yield

    with pytest.raises(Throttled, match="Rate exceeded"):
        read(Throttling())
