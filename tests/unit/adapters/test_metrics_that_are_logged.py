"""What a check writes as a log line becomes a metric with the dimensions of that line, and is asked for by them.

CloudWatch has a metric for each set of dimensions: one that is asked for without `service` has no point. EMF:
CloudWatch user guide, "Embedding metrics within logs".
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from aws_lambda_powertools import Metrics
from moto import mock_aws
from peaker.adapters.cloudwatch.readings import CloudWatchReadings
from peaker.domain.reading import Known
from peaker.runtime import telemetry

from peaker_contract.metrics import SERVICE, Metric
from tests.support.builders import orders

NAMESPACE = "Peaker/dev"


def test_the_capacity_of_a_replica_is_read_as_the_check_has_logged_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, now = orders(environment="dev"), datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr(telemetry, "metrics", Metrics(namespace=NAMESPACE, service=SERVICE))
    telemetry.emit(settings.name, {Metric.CAPACITY_PER_REPLICA: 125.0})
    line = json.loads(capsys.readouterr().out)
    [dimensions] = line["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
    with mock_aws():
        cloudwatch = boto3.client("cloudwatch", region_name="us-east-1")
        datum = {
            "MetricName": "CapacityPerReplica",
            "Dimensions": [{"Name": name, "Value": line[name]} for name in dimensions],
            "Timestamp": now - timedelta(minutes=5),
            "Value": 125.0,
        }
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[datum])  # type: ignore[list-item]
        read = CloudWatchReadings(cloudwatch).published(settings, Metric.CAPACITY_PER_REPLICA, now)
    assert isinstance(read, Known), read
    assert read.value == 125.0
