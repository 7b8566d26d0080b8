"""Predictive scaling as AWS documents it, as a rival in the replay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from peaker_backtest.simulation import Floats, Ints, Outcome, Scenario, react

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
