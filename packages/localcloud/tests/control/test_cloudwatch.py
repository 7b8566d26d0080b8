"""Metrics: statistics and percentiles by period, AWS's limits on time, and history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import Control, control, unique
from localcloud.extensions.cloudwatch.metric_store import Sample, statistic

DAY = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        opened.cloud.clock.set(now=DAY)
        yield opened


def put(aws: Control, name: str, *data: dict[str, Any]) -> None:
    aws.cloudwatch.put_metric_data(
        Namespace="N", MetricData=[{"MetricName": name, **datum} for datum in data]
    )


def query(name: str, stat: str, period: int = 60, dimensions: dict[str, str] | None = None) -> dict[str, Any]:
    pairs = [{"Name": key, "Value": value} for key, value in (dimensions or {}).items()]
    metric = {"Namespace": "N", "MetricName": name, "Dimensions": pairs}
    return {"Id": "m", "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}


def ask(aws: Control, *queries: dict[str, Any], **options: Any) -> Any:
    window = {"StartTime": DAY - timedelta(hours=1), "EndTime": DAY + timedelta(hours=1), **options}
    return aws.cloudwatch.get_metric_data(MetricDataQueries=list(queries), **window)["MetricDataResults"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Average", 25),
        ("Sum", 100),
        ("Minimum", 10),
        ("Maximum", 40),
        ("SampleCount", 4),
        ("p50", 25),
        ("p100", 40),
    ],
)
def test_a_statistic_of_a_period(aws: Control, name: str, value: float) -> None:
    metric = unique("metric")
    put(aws, metric, *({"Value": value, "Timestamp": DAY} for value in (40, 10, 30, 20)))
    assert ask(aws, query(metric, name))[0]["Values"] == [value]


def test_of_a_unit_only_points_that_were_written_in_it_are_answered(aws: Control) -> None:
    metric = unique("metric")
    put(aws, metric, {"Value": 4, "Timestamp": DAY, "Unit": "Percent"})
    asked = query(metric, "Average")
    found = {
        unit: ask(aws, {**asked, "MetricStat": {**asked["MetricStat"], "Unit": unit}})[0]["Values"]
        for unit in ("Percent", "Seconds", "None")
    }
    assert found == {"Percent": [4.0], "Seconds": [], "None": []}


def test_percentiles_of_weighted_values_and_averages_of_statistic_sets() -> None:
    weighted = [Sample(1, 98), Sample(1000, 2)]
    assert statistic(weighted, "p90") == 1
    assert statistic(weighted, "p99") == 1000
    assert statistic([Sample(5, 10)], "Sum") == 50


def test_values_with_counts_and_single_values_are_taken_together(aws: Control) -> None:
    metric = unique("metric")
    put(
        aws,
        metric,
        {"Values": [1, 2], "Counts": [1, 2], "Timestamp": DAY},
        {"Values": [4, 6], "Timestamp": DAY},
    )
    result = ask(aws, {**query(metric, "Average"), "Id": "a"}, {**query(metric, "Maximum"), "Id": "b"})
    assert [item["Values"] for item in result] == [[3.0], [6.0]]


def test_a_batch_with_a_bad_point_stores_nothing(aws: Control) -> None:
    metric = unique("metric")
    with pytest.raises(ClientError):
        put(aws, metric, {"Value": 1}, {"Value": 1, "Timestamp": DAY - timedelta(days=30)})
    assert not aws.cloudwatch.list_metrics(MetricName=metric)["Metrics"]


def test_what_is_not_there_is_an_error_and_not_an_empty_answer(aws: Control) -> None:
    with pytest.raises(ClientError, match="no metric math"):
        ask(aws, query("m", "Sum"), {"Id": "e", "Expression": "m * 2"})
    metric = unique("metric")
    put(aws, metric, {"Value": 1, "Timestamp": DAY})
    with pytest.raises(ClientError, match="no statistic"):
        ask(aws, query(metric, "TM(2%:98%)"))
    with pytest.raises(ClientError, match="Period 61"):
        ask(aws, query("m", "Sum", 61))
