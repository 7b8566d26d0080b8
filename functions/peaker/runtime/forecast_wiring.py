"""The ports that only forecast_load uses, made once per warm function."""

from __future__ import annotations

import os
from functools import lru_cache

from peaker.adapters.aws_clients import lazy_client
from peaker.adapters.cloudwatch.metrics import CloudWatchLoadHistory, CloudWatchMetricPublisher
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.ports.bundle import ForecastPorts
from peaker.runtime import wiring
from peaker.runtime.settings import FunctionSettings


@lru_cache(maxsize=1)
def forecast_ports() -> ForecastPorts:
    """Raises MissingVariable when the environment is incomplete."""
    settings = FunctionSettings.from_environment(os.environ)
    common = wiring.ports()
    cloudwatch = lazy_client("cloudwatch")
    dynamodb = lazy_client("dynamodb")
    return ForecastPorts(
        common=common,
        history=CloudWatchLoadHistory(cloudwatch),
        metrics=CloudWatchMetricPublisher(cloudwatch, settings.environment),
        records=DynamoForecastRecords(dynamodb, settings.ledger_table, common.ledger),
    )
