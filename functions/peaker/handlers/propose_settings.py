"""Lambda function ProposeSettings: one scheduled look at the settings that would have been cheapest."""

from __future__ import annotations

from typing import Any

from peaker.runtime.forecast_wiring import forecast_ports
from peaker.runtime.telemetry import logger
from peaker.usecases.forecast.propose_settings import propose_settings


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Propose for the clusters that are due; the report is the log line and the answer."""
    with logger.append_context_keys(step="ProposeSettings"):
        proposed = propose_settings(forecast_ports())
        logger.info(proposed.text, extra={"report": proposed.model_dump(mode="json")})
        return proposed.model_dump(mode="json")
