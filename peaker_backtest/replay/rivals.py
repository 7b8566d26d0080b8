"""Rivals in the replay: reactive scaling, static fleets, and predictive scaling as AWS documents it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from peaker.domain.planning.scaling_policy import replicas_for

from peaker_backtest.replay.simulation import (
    Event,
    FleetInTime,
    Floats,
    Ints,
    Outcome,
    Scenario,
    outcome_of,
    simulate_decisions,
)

STATIC_LOOK_BACK_DAYS = 28
_FORECAST_EVERY_HOURS = 6
_HISTORY_DAYS = 14
_LAUNCH_BUFFER_SECONDS = 300


def simulate_aws_predictive(scenario: Scenario) -> Outcome:
    """Predictive scaling as AWS documents it, beside reactive scaling at full use of the capacity.

    Every six hours the maximum of each of the next hours is forecast from two weeks of history, and that many
    replicas are launched five minutes before the hour: no lead time is learned. What is predicted is a floor; only the
    reactive rule removes. AWS does not say how it forecasts; here it is the mean of the same hour on the days of the
    same kind (working days, weekends), at the level of the last day.
    """
    floor = _HourlyFloor(scenario)
    return react("AWS predictive", scenario, 1.0, floor.at)


@dataclass
class _HourlyFloor:
    """The load that AWS predictive scaling would foresee for the hour in which a step lies, as known at a forecast."""

    scenario: Scenario
    _forecasts: dict[int, Floats] = field(default_factory=dict)

    def at(self, step: int) -> float:
        """The floor at the end of `step`: of the hour that begins within five minutes, or of the one under way."""
        series = self.scenario.series
        hour = max(1, 3600 // series.step_seconds)
        soon = step + 1 + max(1, _LAUNCH_BUFFER_SECONDS // series.step_seconds)
        made = (step + 1) // (_FORECAST_EVERY_HOURS * hour) * _FORECAST_EVERY_HOURS * hour
        if made not in self._forecasts:
            self._forecasts = {made: self._hours_from(made, hour)}
        ahead = self._forecasts[made]
        hours = {(step + 1 - made) // hour, (soon - made) // hour}
        return max(float(ahead[each]) for each in hours if each < len(ahead))

    def _hours_from(self, made: int, hour: int) -> Floats:
        """The maxima of the next hours, from the two weeks before step `made`."""
        series, day = self.scenario.series, self.scenario.series.steps_per_day // hour
        count = min(made // hour, _HISTORY_DAYS * day)
        past = (
            series.values[made - count * hour : made].reshape(count, hour) if count else np.zeros((0, hour))
        )
        highest = np.where(np.isfinite(past), past, -1.0).max(axis=1, initial=-1.0)
        highest = np.where(highest < 0, np.nan, highest)
        began = series.start_seconds + (made - count * hour) * series.step_seconds
        number = np.arange(count + _FORECAST_EVERY_HOURS + 1)
        at = began + number * hour * series.step_seconds
        # 1970-01-01 was a Thursday: days 2 and 3 of each week since are Saturday and Sunday.
        weekend = ((at // 86_400) % 7 == 2) | ((at // 86_400) % 7 == 3)
        slot = number % day
        usual = [self._one(highest, slot, weekend, each) for each in range(max(0, count - day), count)]
        level = _mean(highest[-day:]) / max(1e-12, _mean(np.array(usual)))
        ahead = range(count, len(number))
        return np.array([level * self._one(highest, slot, weekend, each) for each in ahead])

    def _one(self, highest: Floats, slot: Ints, weekend: NDArray[np.bool_], at: int) -> float:
        count = len(highest)
        same_hour = slot[:count] == slot[at]
        alike = same_hour & (weekend[:count] == weekend[at])
        found = _mean(highest[alike]) if alike.any() else 0.0
        return found if found > 0 else _mean(highest[same_hour])


def _mean(values: Floats) -> float:
    seen = values[np.isfinite(values)]
    return float(seen.mean()) if len(seen) else 0.0


def simulate_static(scenario: Scenario) -> Outcome:
    """Always as many replicas as the highest load of the four weeks before took."""
    day = scenario.series.steps_per_day
    since = max(0, scenario.first - STATIC_LOOK_BACK_DAYS * day)
    before = scenario.series.values[since : scenario.first]
    return _constant("static, sized by the past", scenario, static_replicas(scenario, before))


def simulate_static_peak(scenario: Scenario) -> Outcome:
    """The smallest constant fleet that is never short in the compared steps: nobody can know it before."""
    compared = scenario.series.values[scenario.compared_from : scenario.last]
    return _constant("static peak", scenario, static_replicas(scenario, compared))


def static_replicas(scenario: Scenario, loads: Floats) -> int:
    """Replicas that the highest of these loads takes, within the limits."""
    seen = loads[np.isfinite(loads)]
    wanted = replicas_for(float(seen.max()) if len(seen) else 0.0, scenario.capacity_per_replica)
    return min(scenario.max_replicas, max(scenario.min_replicas, wanted))


def _constant(name: str, scenario: Scenario, replicas: int) -> Outcome:
    course = np.full(scenario.last - scenario.first, replicas, dtype=np.int64)
    return outcome_of(name, scenario, course, course.copy(), ())


def simulate_reactive(scenario: Scenario, target: float) -> Outcome:
    """Launch what the load of now takes at `target` utilisation; retire after max(60 min, L) below."""
    return react(f"reactive at {target:.0%}", scenario, target, lambda _: 0.0)


def react(name: str, scenario: Scenario, target: float, floor_at: Callable[[int], float]) -> Outcome:
    """Reactive scaling at `target`, never below what the load that `floor_at` a step foresees takes."""
    values = scenario.series.values
    patience = max(3600.0, scenario.lead_seconds)
    low_since: float | None = None

    def decide_at(step: int, fleet: FleetInTime) -> Event | None:
        nonlocal low_since
        load = values[step]
        if not np.isfinite(load):
            # An alarm without data is no alarm, and its low periods are counted from the beginning.
            low_since = None
            return None
        least = replicas_for(floor_at(step), scenario.capacity_per_replica)
        wanted = max(least, replicas_for(float(load) / target, scenario.capacity_per_replica))
        wanted = min(scenario.max_replicas, max(scenario.min_replicas, wanted))
        now = scenario.at_end_of(step)
        coming = fleet.serving + len(fleet.arrivals)
        if wanted > coming:
            low_since = None
            started = fleet.launch(step, wanted - coming)
            return Event(step, "scale_out", started, f"load {load:g}") if started else None
        if wanted >= fleet.serving:
            low_since = None
            return None
        low_since = now if low_since is None else low_since
        if now - low_since < patience:
            return None
        count = fleet.serving - wanted
        fleet.retire(count)
        low_since = None
        return Event(step, "scale_in", count, f"load {load:g} for {patience / 60:.0f} min")

    # Their launches wait for none before: no lease of a cluster is in their way.
    unlimited = replace(scenario, builds_at_once=None, batches_overlap=True)
    return simulate_decisions(name, unlimited, decide_at)


def short_at_equal_cost(outcome: Outcome, reactive: Sequence[Outcome]) -> float:
    """The share of time short that reactive scaling would have had for the same replica-hours.

    Interpolated between the reactive runs (one per target utilisation), and flat beyond their ends.
    """
    ordered = sorted(reactive, key=lambda each: each.replica_hours)
    hours = [each.replica_hours for each in ordered]
    shares = [each.short_share for each in ordered]
    return float(np.interp(outcome.replica_hours, hours, shares))
