"""Lambda function WatchReplicas: one scheduled look at all responders of one cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.utilities.parser import parse
from pydantic import BaseModel, ConfigDict, Field

from peaker.domain.replica_watch import WatchFigures
from peaker.runtime.telemetry import Metric, emit, logger
from peaker.runtime.wiring import ports
from peaker.usecases.watch_replicas import watch_replicas


class ScheduledWatch(BaseModel):
    """What the schedule gives: the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(min_length=1)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Tell the replicas their peers, count how they stand; the report is the log line and the answer."""
    given = parse(event=event, model=ScheduledWatch)
    with logger.append_context_keys(cluster=given.cluster, step="WatchReplicas"):
        figures = watch_replicas(ports(), given.cluster)
        emit(given.cluster, watch_metrics(figures))
        logger.info(figures.reason, extra={"report": asdict(figures)})
        return asdict(figures)


def watch_metrics(figures: WatchFigures) -> dict[Metric, float]:
    """The figures as metrics; a lag that nobody knows is left out."""
    values = {
        Metric.REPLICAS_SERVING: float(figures.serving),
        Metric.REPLICAS_HELD_BY_FLOOR: float(figures.held_by_floor),
        Metric.REPLICAS_UNREPORTED: float(figures.unreported),
    }
    if figures.lag_seconds_max is not None:
        values[Metric.REPLICA_LAG_SECONDS_MAX] = figures.lag_seconds_max
    return values
