"""Other settings replayed on the same forecasts, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from peaker.domain.forecasting import Forecast
from peaker.domain.planning.scaling_policy import (
    Capacity,
    ScalingPolicy,
    horizon_needed_seconds,
    with_headroom,
)

from peaker_backtest.replay.simulation import Figures, Scenario

# The values of the setting `forecast.rule`.
FORECAST, REACTIVE = "forecast", "reactive"
QUANTILES = (0.9, 0.925, 0.95, 0.975, 0.99)
HEADROOMS = (0.0, 0.1)
# Reactive scaling at a target of 100 to 50 % of a replica.
REACTIVE_HEADROOMS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Choice:
    """The settings of `forecast` that trade cost against shortage."""

    quantile: float
    headroom: float
    rule: str = FORECAST

    def __str__(self) -> str:
        if self.rule == REACTIVE:
            return f"rule reactive, headroom {self.headroom:g}"
        return f"quantile {self.quantile:g}, headroom {self.headroom:g}"


@dataclass(frozen=True)
class Trial:
    """One choice with its figures over the compared steps."""

    choice: Choice
    figures: Figures


@dataclass(frozen=True)
class Trials:
    """Every choice that was replayed, the present one first; `short_weight` weighs a replica-hour short."""

    every: tuple[Trial, ...]
    short_weight: float

    @property
    def now(self) -> Trial:
        """Returns the trial of the present settings."""
        return self.every[0]

    @property
    def cheapest(self) -> Trial:
        """Returns the trial of the least weighted replica-hours; of equal ones the present one."""
        return min(self.every, key=self.weighted)

    @property
    def best_of_each_rule(self) -> tuple[Trial, ...]:
        """Returns the cheapest trial of either rule, the cheaper rule first."""
        rules = {one.choice.rule for one in self.every}
        best = [
            min((one for one in self.every if one.choice.rule == rule), key=self.weighted) for rule in rules
        ]
        return tuple(sorted(best, key=self.weighted))

    def weighted(self, trial: Trial) -> float:
        """Returns the trial's replica-hours with each one short counted `short_weight` times."""
        return trial.figures.weighted(self.short_weight)


def choice_of(scenario: Scenario) -> Choice:
    """Returns the settings that the scenario is replayed with."""
    rule = REACTIVE if scenario.is_reactive else FORECAST
    return Choice(scenario.quantile, scenario.headroom, rule)


def other_choices(scenario: Scenario) -> list[Choice]:
    """Returns the settings to try apart from those of the scenario."""
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


def trials_of(
    scenario: Scenario, now: Figures, others: Sequence[tuple[Choice, Figures]], weight: float
) -> Trials:
    """Returns the replays as trials, that of the scenario first."""
    return Trials((Trial(choice_of(scenario), now), *(Trial(*one) for one in others)), weight)
