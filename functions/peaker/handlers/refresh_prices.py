"""Lambda function RefreshPrices: one scheduled look at the environment's prices."""

from __future__ import annotations

from typing import Any

from peaker.runtime import wiring
from peaker.runtime.telemetry import logger
from peaker.usecases.plan.refresh_prices import refresh_prices


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Ask the Price List API when the prices are due; the report is the log line and the answer."""
    with logger.append_context_keys(step="RefreshPrices"):
        report = refresh_prices(wiring.ports())
        logger.info(report.reason, extra={"report": report.model_dump(mode="json")})
        return report.model_dump(mode="json")
