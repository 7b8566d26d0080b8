"""The options of a backtest, checked, as the scenario that is replayed. Each refusal names the option."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS

from peaker_backtest.errors import BadInput
from peaker_backtest.points import time_zone
from peaker_backtest.replay.simulation import Scenario
from peaker_backtest.replay.trials import FORECAST, LEAST_COMPARED_DAYS, REACTIVE, WARM_UP_DAYS

# The forecaster's models are fitted on three days at least, and are refitted once a day.
LEAST_HISTORY_DAYS = 4.0
DEFAULT_REPLICAS_AT_PEAK = 10
DEFAULT_LEAD_MINUTES = 70.0
DEFAULT_DAYS = 28
# The load balancer's time, the quiet that a drain waits for and the settings' default for staying unused.
DEFAULT_DRAIN_MINUTES = 17.0
# Twice that and a few hours is what the forecast reaches.
MOST_LEAD_MINUTES = (LONGEST_REACH_DAYS - 1) * 1440 // 2
PEAK_QUANTILE = 0.999
# The estimates of docs/operating.md in us-east-1: an environment of one cluster.
OWN_USD_A_MONTH_NLB, OWN_USD_A_MONTH_DNS = 35.0, 20.0
NEEDED = (
    f"{WARM_UP_DAYS + LEAST_COMPARED_DAYS:.0f} are needed ({WARM_UP_DAYS:.0f} to warm up, in which nothing may be "
    f"removed, and {LEAST_COMPARED_DAYS:.0f} to compare)"
)


@dataclass(frozen=True)
class Options:
    """What a person or the cluster's settings ask for; `given_by` says who, by field, where it is not a default.

    Minutes and days as their names say, capacity in load units per replica, price in USD per replica-hour, headroom a
    share of the capacity.
    """

    quantile: float = 0.95
    capacity_per_replica: float | None = None
    lead_minutes: float = DEFAULT_LEAD_MINUTES
    min_replicas: int = 1
    max_replicas: int = 100
    replica_hour_usd: float | None = None
    days: int = DEFAULT_DAYS
    minimum_lifetime_minutes: float = 60.0
    headroom: float = 0.0
    rule: str = FORECAST
    # How often the forecast is made; None: at each step of the load.
    schedule_minutes: float | None = None
    drain_minutes: float = DEFAULT_DRAIN_MINUTES
    # Of the load's daily rhythm: an IANA name, or an offset such as +02:00.
    time_zone: str = "UTC"
    # Replicas that serve today; None: not compared.
    fleet_of_today: int | None = None
    # What Peaker itself costs: one cluster behind a load balancer (docs/operating.md).
    own_usd_a_month: float = OWN_USD_A_MONTH_NLB
    given_by: dict[str, str] = field(default_factory=dict)

    def basis(self, name: str) -> str:
        return self.given_by.get(name, "default")


def check_options(options: Options) -> None:
    """Raises BadInput naming the first option that cannot be used. Infinite and not-a-number are refused by each."""
    capacity, price = options.capacity_per_replica, options.replica_hour_usd
    least, most = options.min_replicas, options.max_replicas
    lifetime, today = options.minimum_lifetime_minutes, options.fleet_of_today
    checks = [
        (capacity is None or 0 < capacity < math.inf, "--capacity", capacity, "above 0"),
        (0.5 < options.quantile <= 0.99, "--quantile", options.quantile, "above 0.5, up to 0.99"),
        (
            0 < options.lead_minutes <= MOST_LEAD_MINUTES, "--lead-minutes", options.lead_minutes,
            f"above 0, up to {MOST_LEAD_MINUTES}: the forecast reaches two lead times ahead, {LONGEST_REACH_DAYS} days "
            "at most",
        ),
        (1 <= least <= 10_000, "--min-replicas", least, "from 1 to 10,000"),
        (least <= most <= 10_000, "--max-replicas", most, f"from --min-replicas ({least}) to 10,000"),
        (price is None or 0 <= price < math.inf, "--replica-hour-usd", price, "of 0 or more, in USD"),
        (1 <= options.days <= 3_650, "--days", options.days, "from 1 to 3,650"),
        (0 <= lifetime <= 43_200, "--minimum-lifetime-minutes", lifetime, "from 0 to 43,200 (30 days)"),
        (0 <= options.headroom <= 0.5, "--headroom", options.headroom, "from 0 to 0.5, a share of the capacity"),
        (today is None or 1 <= today <= 10_000, "--fleet-of-today", today, "from 1 to 10,000"),
    ]  # fmt: skip
    for good, option, value, allowed in checks:
        if not good:
            raise BadInput(f"{option} is {value}; give a value {allowed}")
    time_zone(options.time_zone)


def first_step(series: LoadSeries, days: int) -> int:
    """Returns the first step to replay: `days` before the end, but after enough history. Raises BadInput."""
    day = series.steps_per_day
    history = math.ceil(LEAST_HISTORY_DAYS * day)
    if len(series.values) < history + day:
        raise BadInput(
            f"too short to judge: {len(series.values) / day:.1f} days of load, and {NEEDED}; "
            f"even a replay without a judgement takes {LEAST_HISTORY_DAYS + 1:.0f}: export more"
        )
    return max(history, len(series.values) - days * day)


def compared_from(series: LoadSeries, first: int) -> int | None:
    """Returns the first step to compare, or None when the warm-up leaves less than a week to compare.

    Models are fitted once a day from `first` on, so the warm-up ends with the first fit on 14 days and more.
    """
    day = series.steps_per_day
    missing_days = max(0, math.ceil((WARM_UP_DAYS * day - first) / day))
    start = first + missing_days * day
    return start if len(series.values) - start >= LEAST_COMPARED_DAYS * day else None


def peak_of(series: LoadSeries) -> float:
    """Returns the load that stands for the peak by default: the 99.9th percentile, blind to a lone point."""
    return float(np.nanquantile(series.values, PEAK_QUANTILE))


def make_scenario(series: LoadSeries, options: Options) -> Scenario:
    """Returns the scenario with checked options. Raises BadInput naming the option."""
    check_options(options)
    first = first_step(series, options.days)
    capacity = options.capacity_per_replica
    if capacity is None:
        capacity = peak_of(series) / DEFAULT_REPLICAS_AT_PEAK
        if capacity <= 0:
            raise BadInput(
                "the load is 0 nearly always: there is nothing to scale, and no --capacity to assume; "
                "check that the column with the load was read"
            )
    highest = float(np.nanmax(series.values)) / capacity
    if highest > 100_000:
        raise BadInput(
            f"--capacity is {capacity:g}: the highest load would take {highest:,.0f} replicas; give the load that "
            "one replica serves, in the units of the load"
        )
    return Scenario(
        series=series,
        first=first,
        last=len(series.values),
        lead_steps=max(1, math.ceil(options.lead_minutes * 60 / series.step_seconds - 1e-9)),
        capacity_per_replica=capacity,
        quantile=options.quantile,
        min_replicas=options.min_replicas,
        max_replicas=options.max_replicas,
        minimum_lifetime_seconds=60.0 * options.minimum_lifetime_minutes,
        decide_every_steps=max(1, round(60 * (options.schedule_minutes or 0) / series.step_seconds)),
        drain_steps=math.ceil(options.drain_minutes * 60 / series.step_seconds - 1e-9),
        headroom=options.headroom,
        is_reactive=options.rule == REACTIVE,
        compare_from=compared_from(series, first),
    )
