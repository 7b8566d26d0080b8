"""Lambda function CheckReplicas: one scheduled look at all responders of one cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.utilities.parser import parse
from pydantic import BaseModel, ConfigDict, Field

from peaker.runtime.telemetry import emit_check, logger
from peaker.runtime.wiring import ports
from peaker.usecases.join.check_replicas import check_replicas


class ScheduledCheck(BaseModel):
    """The schedule's event: the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(min_length=1)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Tell the replicas their peers, count how they stand; the report is the log line and the answer."""
    given = parse(event=event, model=ScheduledCheck)
    figures = check_replicas(ports(), given.cluster)
    emit_check(given.cluster, figures.metrics(), figures.replica_values())
    logger.info(figures.reason, extra={"cluster": given.cluster, "report": asdict(figures)})
    return asdict(figures)
