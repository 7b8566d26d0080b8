"""Lambda function FindStoppedRuns: one scheduled look at the held leases of all clusters."""

from __future__ import annotations

from typing import Any

from peaker.runtime.telemetry import logger
from peaker.runtime.wiring import ports
from peaker.usecases.undo.find_stopped_runs import find_stopped_runs


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Start roll_back where an execution ended without an undo; the report is the log line and the answer."""
    found = find_stopped_runs(ports())
    logger.info(found.text, extra={"taken_up": found.taken_up})
    return found.model_dump(mode="json")
