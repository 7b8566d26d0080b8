"""What in a good environment file deserves a second look: it is used, and a line is told on stderr."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from environments.calendar_settings import CalendarEvent
from environments.settings import Cluster, Environment
from peaker_contract.field_types import Fault
from peaker_contract.load_settings import SHIPPED_REGION, shipped_hourly_usd

LONGEST_USUAL_SCHEDULE_MINUTES = 60
LONGEST_USUAL_EVENT = timedelta(days=31)
FARTHEST_USUAL_EVENT = timedelta(days=400)


def advice(environment: Environment, now: datetime) -> Iterator[Fault]:
    """One entry per setting, with what it comes to and what to do."""
    for index, cluster in enumerate(environment.clusters):
        found = [
            *_about_events(cluster, now),
            *_about_budget(cluster, environment.region),
            *_about_forecast(cluster),
        ]
        yield from (one.below("clusters", index) for one in found)


def _about_events(cluster: Cluster, now: datetime) -> Iterator[Fault]:
    for index, event in enumerate(cluster.calendar):
        at, reason = ("calendar", index), event.reason
        if event.until <= now:
            yield Fault((*at, "until"), f"{reason} ended {event.until:%Y-%m-%d %H:%M} UTC: remove it")
        elif event.from_ - now > FARTHEST_USUAL_EVENT:
            yield Fault(
                (*at, "from"), f"{reason} is over a year ahead, {event.from_:%Y-%m-%d}: is the year right?"
            )
        if event.until - event.from_ > LONGEST_USUAL_EVENT:
            days = (event.until - event.from_).days
            yield Fault((*at, "until"), f"{reason} lasts {days} days: is the month right?")
        yield from (Fault((*at, name), message) for name, message in _about_demand(event, cluster))


def _about_demand(event: CalendarEvent, cluster: Cluster) -> Iterator[tuple[str, str]]:
    if event.min_replicas is not None and event.min_replicas <= cluster.min_replicas:
        yield (
            "min_replicas",
            f"{event.reason} asks for no more than min_replicas ({cluster.min_replicas}) anyway",
        )
    if event.load is not None:
        takes = math.ceil(event.load / cluster.capacity_per_replica)
        if takes > cluster.max_replicas:
            yield (
                "load",
                f"{event.reason} takes {takes} replicas and max_replicas is {cluster.max_replicas}: raise it",
            )


def _about_budget(cluster: Cluster, region: str) -> Iterator[Fault]:
    price = cluster.instance_hourly_usd or shipped_hourly_usd(region, cluster.instance_type)
    wanted = cluster.max_replicas - cluster.min_replicas
    budget = cluster.limits.max_hourly_cost_usd
    if budget is None:
        return
    if price is None:
        yield from _about_unknown_price(budget, cluster.instance_type, region)
        return
    paid = int(budget / price)
    if paid < wanted:
        yield Fault(
            ("limits", "max_hourly_cost_usd"),
            f"{budget:g} USD pays for {paid} peak replicas at most ({price:g} each for "
            f"{cluster.instance_type}, volumes not counted), and min_replicas to max_replicas are {wanted}: raise it, "
            "or lower max_replicas",
        )


def _about_unknown_price(budget: float, instance_type: str, region: str) -> Iterator[Fault]:
    price = shipped_hourly_usd(SHIPPED_REGION, instance_type)
    if price is not None and budget < price:
        yield Fault(
            ("limits", "max_hourly_cost_usd"),
            f"{budget:g} USD is less than one {instance_type} costs in {SHIPPED_REGION} ({price:g}, without volumes); "
            f"what it costs in {region} is not known here, and a plan above it is refused",
        )


def _about_forecast(cluster: Cluster) -> Iterator[Fault]:
    forecast = cluster.forecast
    if cluster.min_replicas == cluster.max_replicas:
        yield Fault(
            ("max_replicas",), f"is min_replicas ({cluster.min_replicas}): no peak replica is ever built"
        )
    if forecast.schedule_minutes > LONGEST_USUAL_SCHEDULE_MINUTES:
        yield Fault(
            ("forecast", "schedule_minutes"),
            f"a rise is seen up to {forecast.schedule_minutes} minutes late: 5 to 15 is usual",
        )
