"""The weeks that a weekly proposal is about, replayed with the settings of now and with others. Pure."""

from __future__ import annotations

import math

import numpy as np

from peaker.domain.forecasting import Forecast, LoadSeries, Standing
from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS
from peaker.domain.forecasting.series import DAY_SECONDS
from peaker.domain.known_events import HolidayCalendar, RepeatingEvent, rolling_with_events
from peaker.domain.planning.worth import WARM_UP_DAYS
from peaker.domain.reading import Unknown
from peaker_contract.cluster import ClusterSettings

from .kept_proposal import Measured, in_force
from .settings_proposal import SettingsProposal
from .simulation import Scenario, simulate_policies
from .trials import judged, other_choices, policy_of, reach_seconds, remembered

MOST_WEEKS = 4
LEAST_HISTORY_DAYS = 28
# Of the compared steps; a load that was seen for less says little of what its weeks would have cost.
_LEAST_SEEN = 0.9


def scenario_of(
    settings: ClusterSettings,
    series: LoadSeries,
    measured: Measured,
    events: tuple[RepeatingEvent, ...],
    holidays: HolidayCalendar | None,
) -> Scenario | Unknown:
    """The last weeks under the settings of now, four at most; Unknown where they would not say enough.

    The models have 14 days before the first of them, so nothing of a warm-up is compared.
    """
    step, days = series.step_seconds, series.span_days()
    if days < LEAST_HISTORY_DAYS:
        return Unknown(f"{days:.1f} days of load until the week's end, and {LEAST_HISTORY_DAYS} are needed")
    weeks = min(MOST_WEEKS, int((days - WARM_UP_DAYS) // 7))
    first = len(series.values) - weeks * 7 * series.steps_per_day
    seen = float(np.isfinite(series.values[first:]).mean())
    if seen < _LEAST_SEEN:
        return Unknown(
            f"the load was seen in {seen:.0%} of the last {weeks} weeks, {_LEAST_SEEN:.0%} are needed"
        )
    now = in_force(settings)
    scenario = Scenario(
        series=series,
        first=first,
        last=len(series.values),
        lead_steps=max(1, math.ceil(measured.lead_seconds / step - 1e-9)),
        capacity_per_replica=measured.capacity_per_replica,
        decide_every_steps=max(1, round(60 * settings.forecast.schedule_minutes / step)),
        min_replicas=now.min_replicas,
        max_replicas=now.max_replicas,
        quantile=now.quantile,
        minimum_lifetime_seconds=60.0 * settings.limits.minimum_lifetime_minutes,
        headroom=now.headroom,
        keep_lead_times=now.keep_lead_times,
        events=events,
        holidays=holidays,
    )
    if reach_seconds(scenario) > LONGEST_REACH_DAYS * DAY_SECONDS:
        return Unknown(
            f"with a lead time of {measured.lead_seconds / 3600:.0f} h the load would have to be forecast for "
            f"{reach_seconds(scenario) / DAY_SECONDS:.0f} days, and {LONGEST_REACH_DAYS} are the most"
        )
    return scenario


def why_no_forecast(newest: Forecast) -> str | None:
    """Why the load cannot be forecast at the week's end; None where it can. No settings make up for that."""
    if newest.stale or newest.standing in {Standing.REACTIVE_ONLY, Standing.DEGRADED}:
        return f"the load cannot be forecast ({'; '.join(newest.reasons) or newest.standing.value})"
    return None


def replayed(
    scenario: Scenario, accepted_short_minutes: float | None, replica_hour_usd: float
) -> SettingsProposal:
    """The weeks once more with the settings of now and with each other choice, and what follows from them.

    Four weeks in steps of five minutes take about 20 s of one processor, and 210 MB.
    """
    choices = other_choices(scenario)
    steps, day = list(scenario.decision_steps()), scenario.series.steps_per_day
    ahead = ([scenario.lead_seconds], day, reach_seconds(scenario))
    rolling = rolling_with_events(scenario.series, scenario.events, steps, *ahead, scenario.holidays)
    policies = [("now", scenario.policy()), *((str(one), policy_of(scenario, one)) for one in choices)]
    now, *others = simulate_policies(
        scenario, remembered((step, forecast) for step, (forecast,) in rolling), policies
    )
    tried = list(zip(choices, others, strict=True))
    return judged(scenario, now, tried, accepted_short_minutes, replica_hour_usd).proposal
