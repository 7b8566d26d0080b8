"""Lambda function TendCapacityReservations: one scheduled look at the room that is kept for known events."""

from __future__ import annotations

from typing import Any

from peaker.runtime.telemetry import emit_by_cluster, logger
from peaker.runtime.wiring import ports
from peaker.usecases.create.tend_capacity_reservations import tend_capacity_reservations


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Reserve what an event wants, give back the rest; the report is the log line, the metrics and the answer."""
    tended = tend_capacity_reservations(ports())
    emit_by_cluster(tended.figures)
    logger.info(tended.text, extra={"clusters": tended.clusters})
    return tended.model_dump(mode="json")
