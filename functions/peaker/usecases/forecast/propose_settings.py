"""ProposeSettings: which settings would have been cheapest over the last weeks, per cluster and once a week.

It says so and changes nothing. What is kept says of which week it is: a second look in the week finds nothing to do,
and of two looks at the same time the second keeps nothing. The figure is published before it is kept, so that a look
which ends in between publishes the same one again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from peaker.domain.reading import Unknown
from peaker.domain.replay.kept_proposal import (
    KeptProposal,
    Measured,
    in_turn,
    is_due,
    kept_proposal,
    unknown_proposal,
    week_end,
)
from peaker.domain.replay.weekly import replayed, scenario_of, why_no_forecast
from peaker.ports import ForecastPorts
from peaker.usecases.forecast.load_ahead import (
    forecast_ahead,
    holiday_calendar,
    load_history,
    repeating_events,
)
from peaker.usecases.plan.cluster_prices import cluster_prices
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError
from peaker_contract.metrics import Metric

# Lambda ends a call after 15 minutes; a cluster takes less than one.
BEGINS_NONE_AFTER = timedelta(minutes=10)


class SettingsProposed(BaseModel):
    """What one look did, by cluster; `later` are those that it had no time for."""

    model_config = ConfigDict(frozen=True)

    text: str
    clusters: dict[str, str]
    later: tuple[str, ...] = ()


class _NewestCheck(BaseModel):
    """What is used of the newest check's report."""

    capacity_per_replica: float
    lead_time_p90_seconds: float


def propose_settings(ports: ForecastPorts) -> SettingsProposed:
    """One look at all clusters that are due, as far as its time goes; the next look takes up the rest.

    What one of them refuses keeps no other from its turn, and is raised at the end.
    """
    began = ports.common.clock.now()
    said: dict[str, str] = {}
    failed: list[PeakerError] = []
    clusters = in_turn(ports.common.clusters.names(), began)
    for cluster in clusters:
        if ports.common.clock.now() - began >= BEGINS_NONE_AFTER:
            break
        try:
            said[cluster] = _look_at(ports, cluster)
        except PeakerError as error:
            said[cluster] = f"{type(error).__name__}: {error}"
            failed.append(error)
    text = "; ".join(f"{name}: {what}" for name, what in said.items()) or "there is no cluster"
    if failed:
        raise type(failed[0])(text) from failed[0]
    return SettingsProposed(
        text=text, clusters=said, later=tuple(name for name in clusters if name not in said)
    )


def _look_at(ports: ForecastPorts, cluster: str) -> str:
    settings = ports.common.clusters.settings(cluster)
    if not settings.proposals.weekly:
        return "proposals.weekly is false"
    kept = ports.proposals.proposal(cluster)
    if not is_due(kept, settings, ports.common.clock.now()):
        return "nothing to do"
    made = _made(ports, settings, kept)
    if made.saved_usd_per_week is not None:
        figure = {Metric.SETTINGS_SAVING_USD_PER_WEEK: made.saved_usd_per_week}
        ports.metrics.publish(cluster, ports.common.clock.now(), figure)
    if not ports.proposals.keep_proposal(cluster, made):
        return "another look was first"
    return f"{made.advice}: {made.reason}"


def _made(ports: ForecastPorts, settings: ClusterSettings, kept: KeptProposal) -> KeptProposal:
    """The answer of this week. What is cheap to know is asked first, and the weeks are replayed last."""
    now = ports.common.clock.now()
    measured = _measured(ports.records.report(settings.name))
    if isinstance(measured, Unknown):
        return unknown_proposal(kept, settings, measured.why, now)
    price = cluster_prices(ports.common, settings).instance_hour(settings.instance_type)
    if isinstance(price, Unknown):
        return unknown_proposal(kept, settings, f"the price of a replica is not known: {price.why}", now)
    series = load_history(ports, settings, week_end(now))
    known = repeating_events(settings), holiday_calendar(settings)
    scenario = scenario_of(settings, series, measured, *known)
    if isinstance(scenario, Unknown):
        return unknown_proposal(kept, settings, scenario.why, now)
    why = why_no_forecast(forecast_ahead(series, (), scenario.lead_time(), settings))
    if why is not None:
        return unknown_proposal(kept, settings, why, now)
    found = replayed(scenario, settings.proposals.accepted_short_minutes, price.value)
    return kept_proposal(kept, settings, measured, found, price.value, now)


def _measured(report: Mapping[str, Any] | None) -> Measured | Unknown:
    if report is None:
        return Unknown("forecast_load has not run yet since this release was deployed")
    unreadable = Unknown("this release cannot read the newest check's report; the next check writes it anew")
    try:
        check = _NewestCheck.model_validate(report)
    except ValidationError:
        return unreadable
    capacity, lead_seconds = check.capacity_per_replica, check.lead_time_p90_seconds
    if not (0 < capacity < math.inf and 0 < lead_seconds < math.inf):
        return unreadable
    return Measured(capacity, lead_seconds)
