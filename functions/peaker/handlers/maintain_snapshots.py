"""Lambda function MaintainSnapshots: one scheduled look at the kept snapshots of all clusters."""

from __future__ import annotations

from typing import Any

from peaker.runtime.telemetry import logger
from peaker.runtime.wiring import ports
from peaker.usecases.create.maintain_snapshots import maintain_snapshots


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Take or keep a first set, delete what nobody needs; the report is the log line and the answer."""
    maintained = maintain_snapshots(ports())
    logger.info(maintained.text, extra={"clusters": maintained.clusters})
    return maintained.model_dump(mode="json")
