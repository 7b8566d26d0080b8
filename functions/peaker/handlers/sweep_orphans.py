"""Lambda function SweepOrphans: one scheduled look at what nobody works on any more in a cluster."""

from __future__ import annotations

from typing import Any

from peaker.runtime import telemetry
from peaker.runtime.wiring import ports
from peaker.usecases.undo.sweep_orphans import sweep_orphans


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Do the next step of every leftover of a cluster; the report is the log line, the metrics and the answer."""
    cluster = str(event["cluster"])
    swept = sweep_orphans(ports(), cluster)
    telemetry.emit(cluster, swept.figures)
    telemetry.logger.info(swept.text, extra={"cluster": cluster})
    return swept.model_dump(mode="json")
