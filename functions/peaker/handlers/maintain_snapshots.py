"""Lambda function MaintainSnapshots: one scheduled look at the kept snapshots of a cluster, or of removed clusters."""

from __future__ import annotations

from typing import Any

from peaker.runtime.telemetry import logger
from peaker.runtime.wiring import ports
from peaker.usecases.create.maintain_snapshots import maintain_snapshots


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Take or keep a first set, delete surplus sets; the report is the log line and the answer."""
    report = maintain_snapshots(ports(), event.get("cluster"))
    logger.info(report.text, extra={"cluster": event.get("cluster")})
    return report.model_dump(mode="json")
