"""Lambda functions of the schedules: `peaker.handlers.scheduled.<use case>`. The report is the log line and the answer.

Each imports its use case when it is called: a cold start pays for no other, and numpy for the forecast alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.utilities.parser import parse
from pydantic import BaseModel, Field

from peaker.runtime import telemetry
from peaker.runtime.wiring import ports

Event = dict[str, Any]


class ScheduledCheck(BaseModel, frozen=True, extra="forbid"):
    """The event of a cluster's schedule; a person may send one too."""

    cluster: str = Field(min_length=1)


def check_replicas(event: Event, context: object) -> Event:
    """Tells the replicas of a cluster their peers, and counts how they stand."""
    from peaker.usecases.join.check_replicas import check_replicas as check

    with _checked(event, "CheckReplicas") as cluster:
        figures = check(ports(), cluster)
        telemetry.emit_check(cluster, figures.metrics(), figures.replica_values())
        return _told(figures.reason, asdict(figures))


def forecast_load(event: Event, context: object) -> Event:
    """Forecasts the load of a cluster, decides and publishes."""
    from peaker.usecases.forecast.forecast_load import forecast_load as check

    with _checked(event, "ForecastLoad") as cluster:
        report = check(ports(), cluster)
        return _told(report.reason, report.model_dump(mode="json"))


def maintain_snapshots(event: Event, context: object) -> Event:
    """Looks at the kept snapshots of a cluster; without one at those of removed clusters."""
    from peaker.usecases.create.maintain_snapshots import maintain_snapshots as maintain

    cluster = event.get("cluster")
    with telemetry.logger.append_context_keys(cluster=cluster, step="MaintainSnapshots"):
        report = maintain(ports(), cluster)
        return _told(report.text, report.model_dump(mode="json"))


def refresh_prices(event: Event, context: object) -> Event:
    """Asks the Price List API when the environment's prices are due."""
    from peaker.usecases.plan.refresh_prices import refresh_prices as refresh

    with telemetry.logger.append_context_keys(step="RefreshPrices"):
        report = refresh(ports())
        return _told(report.reason, report.model_dump(mode="json"))


def sweep_orphans(event: Event, context: object) -> Event:
    """Does the next step of every leftover of a cluster."""
    from peaker.usecases.undo.sweep_orphans import sweep_orphans as sweep

    with _checked(event, "SweepOrphans") as cluster:
        swept = sweep(ports(), cluster)
        telemetry.emit(cluster, swept.figures)
        return _told(swept.text, swept.model_dump(mode="json"))


@contextmanager
def _checked(event: Event, step: str) -> Iterator[str]:
    """The event's cluster, named with the step in every line of the log."""
    cluster = parse(event=event, model=ScheduledCheck).cluster
    with telemetry.logger.append_context_keys(cluster=cluster, step=step):
        yield cluster


def _told(text: str, report: Event) -> Event:
    telemetry.logger.info(text, extra={"report": report})
    return report
