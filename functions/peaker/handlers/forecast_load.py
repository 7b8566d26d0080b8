"""Lambda function ForecastLoad: one scheduled check of one cluster."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.parser import parse
from pydantic import BaseModel, ConfigDict, Field

from peaker.runtime.forecast_wiring import forecast_ports
from peaker.runtime.telemetry import logger
from peaker.usecases.forecast.forecast_load import forecast_load


class ScheduledCheck(BaseModel):
    """The schedule's event: the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(min_length=1)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Forecast, decide, publish; the report is the log line and the answer."""
    given = parse(event=event, model=ScheduledCheck)
    with logger.append_context_keys(cluster=given.cluster, step="ForecastLoad"):
        report = forecast_load(forecast_ports(), given.cluster)
        logger.info(report.reason, extra={"report": report.model_dump(mode="json")})
        return report.model_dump(mode="json")
