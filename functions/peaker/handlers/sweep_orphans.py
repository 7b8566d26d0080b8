"""Lambda function SweepOrphans: one scheduled look at what nobody works on any more, in all clusters."""

from __future__ import annotations

from typing import Any

from peaker.runtime.telemetry import emit_by_cluster, logger
from peaker.runtime.wiring import ports
from peaker.usecases.undo.sweep_orphans import sweep_orphans


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Do the next step of every leftover; the report is the log line, the metrics and the answer."""
    swept = sweep_orphans(ports())
    emit_by_cluster({name: one.figures for name, one in swept.clusters.items()})
    logger.info(swept.text, extra={"failed": swept.failed})
    return swept.model_dump(mode="json")
