"""Other settings on the same forecasts: what each would have cost, and how long it would have been short, per week."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from peaker.domain.forecasting import Forecast
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    horizon_needed_seconds,
    with_headroom,
)

from peaker_backtest.replay.settings_proposal import (
    FORECAST,
    REACTIVE,
    Choice,
    SettingsProposal,
    Trial,
    Week,
    propose_settings,
)
from peaker_backtest.replay.simulation import Outcome, Scenario

QUANTILES = (0.9, 0.925, 0.95, 0.975, 0.99)
HEADROOMS = (0.0, 0.1)
# Reactive scaling at a target of 100 to 50 % of a replica.
REACTIVE_HEADROOMS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def choice_of(scenario: Scenario) -> Choice:
    """Returns the settings that the scenario is replayed with."""
    rule = REACTIVE if scenario.is_reactive else FORECAST
    return Choice(scenario.quantile, scenario.headroom, rule)


def other_choices(scenario: Scenario) -> list[Choice]:
    """Returns the settings to try beside those of the scenario."""
    now = choice_of(scenario)
    every = [Choice(quantile, headroom) for quantile in QUANTILES for headroom in HEADROOMS]
    # The measured load alone decides there: the quantile has no say.
    every += [Choice(now.quantile, headroom, REACTIVE) for headroom in REACTIVE_HEADROOMS]
    return [choice for choice in every if choice != now]


def reach_seconds(scenario: Scenario) -> float:
    """Returns how far ahead the decisions of the scenario look."""
    return horizon_needed_seconds(scenario.lead_time(), scenario.policy().period_seconds)


def policy_of(scenario: Scenario, choice: Choice) -> ScalingPolicy:
    """Returns the scenario's rules with another choice."""
    capacity = Capacity(scenario.capacity_per_replica, "given")
    return replace(
        scenario.policy(),
        quantile=choice.quantile,
        capacity=with_headroom(capacity, choice.headroom),
        is_reactive=choice.rule == REACTIVE,
    )


@dataclass(frozen=True)
class _Remembered(Forecast):
    """A forecast that many policies ask the same of, and that looks it up once."""

    found: dict[tuple[float, float, float], float] = field(default_factory=dict)

    def highest(self, level: float, from_seconds: float, until_seconds: float) -> float:
        asked = (level, from_seconds, until_seconds)
        if asked not in self.found:
            self.found[asked] = super().highest(*asked)
        return self.found[asked]


def remembered(forecasts: Iterable[tuple[int, Forecast]]) -> Iterator[tuple[int, Forecast]]:
    """Returns the forecasts, for several policies."""
    names = [one.name for one in fields(Forecast)]
    for step, forecast in forecasts:
        yield step, _Remembered(**{name: getattr(forecast, name) for name in names})


def weeks_of(scenario: Scenario, outcome: Outcome) -> tuple[Week, ...]:
    """Returns the whole weeks of the compared steps, counted back from the end, the oldest first."""
    week = 7 * scenario.series.steps_per_day
    border = scenario.compared_from - scenario.first
    required = scenario.required()
    short = (required >= 0) & (required > outcome.serving)
    count = (len(outcome.paid) - border) // week
    found = []
    for number in range(count, 0, -1):
        end = len(outcome.paid) - (number - 1) * week
        steps = slice(end - week, end)
        found.append(
            Week(
                replica_hours=float(outcome.paid[steps].sum()) * scenario.step_seconds / 3600,
                short_minutes=float(np.count_nonzero(short[steps])) * scenario.step_seconds / 60,
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Trials:
    """Every choice that was replayed, that of the scenario first, and what they say about the settings."""

    every: tuple[Trial, ...]
    proposal: SettingsProposal


def judged(
    scenario: Scenario,
    now: Outcome,
    others: Sequence[tuple[Choice, Outcome]],
    accepted_short_minutes: float | None,
    replica_hour_usd: float | None,
) -> Trials:
    """Returns the replays as trials, and the proposal that follows from them."""
    ours = Trial(choice_of(scenario), weeks_of(scenario, now))
    rest = [Trial(choice, weeks_of(scenario, outcome)) for choice, outcome in others]
    return Trials((ours, *rest), propose_settings(ours, rest, accepted_short_minutes, replica_hour_usd))
