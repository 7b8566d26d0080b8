"""A forecast as it is issued: quantiles of the load over the time ahead, and what they may be used for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from .series import Floats

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.975, 0.99)


class Standing(StrEnum):
    """What the forecast may be used for, from nothing to everything."""

    REACTIVE_ONLY = "reactive_only"
    DEGRADED = "degraded"
    SCALE_OUT_ONLY = "scale_out_only"
    NORMAL = "normal"


@dataclass(frozen=True)
class Forecast:
    """Load quantiles for the time after `issued_at_seconds`, and what they may be used for.

    quantiles[h, i] is the load under which the step ending at issued_at + (h + 1) * step stays with
    probability levels[i], for the first day; None when there is no forecast (reactive_only). later_quantiles[k, i]
    is the same for the steps of `later_step_seconds` that follow, None when only the first day was asked for.
    coverage is the trailing week's p95 coverage at the lead time, of the bands as they were then.
    age_seconds is how old the newest point is beyond its own step.
    """

    issued_at_seconds: float
    step_seconds: int
    levels: tuple[float, ...]
    quantiles: Floats | None
    standing: Standing
    reasons: tuple[str, ...]
    coverage: float | None = None
    age_seconds: float | None = None
    last_load: float | None = None
    shifted: bool = False
    # The last hour was lower than almost any was at that time of day, as in an outage before the readers.
    fallen: bool = False
    stale: bool = True
    # The history is too short to remove anything by it, whatever its standing.
    is_young: bool = False
    later_quantiles: Floats | None = None
    later_step_seconds: int = 3600
    # The metric is a utilisation: scaling itself changes it, so a low one does not say how many replicas would do.
    utilisation: bool = False
    # The highest believed load of the history that it was made from, outside the calendar's events that multiply it;
    # infinite where that is not known.
    highest_load: float = inf

    @property
    def reach_seconds(self) -> float:
        """How far ahead of the time of issue the forecast says something; 0 when there is none."""
        if self.quantiles is None:
            return 0.0
        later = 0 if self.later_quantiles is None else len(self.later_quantiles)
        return float(len(self.quantiles) * self.step_seconds + later * self.later_step_seconds)

    def quantile(self, level: float) -> Floats:
        """The first day's curve of one level, interpolated between the issued levels.

        Raises ValueError when there is none.
        """
        if self.quantiles is None:
            raise ValueError(f"there is no forecast: {'; '.join(self.reasons)}")
        return self._between(self.quantiles, level)

    def highest(self, level: float, from_seconds: float, until_seconds: float) -> float:
        """The highest quantile over the steps that overlap [from, until], seconds from the time of issue.

        Raises ValueError when the forecast ends before `until`.
        """
        near, hours = self.quantile(level), self.reach_seconds / 3600
        if until_seconds > self.reach_seconds + 1e-6:
            raise ValueError(f"the forecast reaches {hours:.1f} h ahead, not {until_seconds / 3600:.1f} h")
        parts = [_overlapping(near, self.step_seconds, from_seconds, until_seconds)]
        if self.later_quantiles is not None:
            border = len(near) * self.step_seconds
            later = self._between(self.later_quantiles, level)
            parts.append(
                _overlapping(later, self.later_step_seconds, from_seconds - border, until_seconds - border)
            )
        return float(max(part.max() for part in parts if len(part)))

    def _between(self, curves: Floats, level: float) -> Floats:
        if not self.levels[0] <= level <= self.levels[-1]:
            raise ValueError(f"level {level} is outside {self.levels[0]} to {self.levels[-1]}")
        if level in self.levels:
            return curves[:, self.levels.index(level)]
        right = int(np.searchsorted(self.levels, level))
        low, high = self.levels[right - 1], self.levels[right]
        part = (level - low) / (high - low)
        return np.asarray((1 - part) * curves[:, right - 1] + part * curves[:, right], dtype=float)


def _overlapping(curve: Floats, step_seconds: int, from_seconds: float, until_seconds: float) -> Floats:
    """The steps of the curve that overlap [from, until]; a moment is the step in which it lies."""
    if until_seconds < 0:
        return curve[:0]
    first = int(max(0.0, from_seconds // step_seconds))
    last = int(max(-(-until_seconds // step_seconds), first + 1))
    return curve[first:last]
