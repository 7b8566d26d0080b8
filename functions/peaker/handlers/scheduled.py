"""Lambda functions of the schedules: `peaker.handlers.scheduled.<use case>`. The report is the log line and the answer.

Each imports its use case when it is called: a cold start pays for no other, and numpy for the forecast alone.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from peaker.runtime import telemetry
from peaker.runtime.wiring import ports

Event = dict[str, Any]


def check_replicas(event: Event, context: object) -> Event:
    """Tells the replicas of a cluster their peers, and counts how they stand."""
    from peaker.usecases.join.check_replicas import check_replicas as check

    figures = check(ports(), event["cluster"])
    telemetry.emit_check(event["cluster"], figures.metrics(), figures.replica_values())
    return _told(event, figures.reason, asdict(figures))


def forecast_load(event: Event, context: object) -> Event:
    """Forecasts the load of a cluster, decides and publishes."""
    from peaker.usecases.forecast.forecast_load import forecast_load as check

    report = check(ports(), event["cluster"])
    return _told(event, report.reason, report.model_dump(mode="json"))


def maintain_snapshots(event: Event, context: object) -> Event:
    """Looks at the kept snapshots of a cluster; without one at those of removed clusters."""
    from peaker.usecases.create.maintain_snapshots import maintain_snapshots as maintain

    report = maintain(ports(), event.get("cluster"))
    return _told(event, report.text, report.model_dump(mode="json"))


def refresh_prices(event: Event, context: object) -> Event:
    """Asks the Price List API when the environment's prices are due."""
    from peaker.usecases.plan.refresh_prices import refresh_prices as refresh

    report = refresh(ports())
    return _told(event, report.reason, report.model_dump(mode="json"))


def sweep_orphans(event: Event, context: object) -> Event:
    """Does the next step of every leftover of a cluster."""
    from peaker.usecases.undo.sweep_orphans import sweep_orphans as sweep

    swept = sweep(ports(), event["cluster"])
    telemetry.emit(event["cluster"], swept.figures)
    return _told(event, swept.text, swept.model_dump(mode="json"))


def _told(event: Event, text: str, report: Event) -> Event:
    telemetry.logger.info(text, extra={"cluster": event.get("cluster"), "report": report})
    return report
