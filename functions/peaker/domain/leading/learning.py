"""What a leading metric foretells of the load, beyond what the forecast knows, and whether that is proven.

The forecast's error h steps ahead is explained by the metric's deviation at the time that leads the target by the lag,
and by the one that leads the time of issue (of which the forecast knows already), in a ridge regression. What comes out
raises the forecast; it never lowers it, so nothing is removed for it.

It counts only where it would have helped. Week by week the lag and the regression are learned from what was known
before, and judged on the week's loads by the forecast's own bands. Over all these weeks the pinball loss of p95 must be
a tenth lower, by three standard errors over days, and so much lower too than if the load itself were the metric; that
of p50, and over the last week both, may be 2 % higher at most; and the lag must be the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peaker.domain.forecasting.panel import Panel
from peaker.domain.forecasting.record import PastForecasts, pinball
from peaker.domain.forecasting.series import Floats, Ints
from peaker.domain.forecasting.windows import trailing_mean

from .lag import candidate_lags, found_lags
from .series import above_usual

Bools = NDArray[np.bool_]

LEAST_GAIN = 0.1
LEAST_STANDARD_ERRORS = 3.0
LEAST_JUDGED_DAYS = 14
MOST_FACTOR = 2.0
LONGEST_LAG_SECONDS = 12 * 3600.0
_SHORTEST_SEARCH_SECONDS = 3 * 3600.0
_LEAST_LEARNED_DAYS = 7
_MOST_WEEKS = 6
# By how much the loss of p50, and both of the last week, may be higher: calm weeks differ by so little either way.
_HARMLESS = 0.02
_SAME_LAG_SHARE = 0.25
_SAME_LAG_STEPS = 2
_ROWS_EVERY_SECONDS = 900
_STRENGTH = 8.0
_WILDEST_ERROR = 1.5
# A rise that is lost in the noise of calm hours is left out: under 5 %, or so many times the usual one.
_LEAST_MOVE = float(np.log(1.05))
_NOISES = (1.5, 2.0, 3.0, 4.0, 6.0)
_MOST_MOVE = float(np.log(MOST_FACTOR))
_NOTHING = np.array([0.0, 0.0, np.inf])
_LEVELS = np.array([0.5, 0.95])
_HORIZONS = 5
_BANDS_EVERY_SECONDS = 3600


@dataclass(frozen=True)
class LearnedMetric:
    """What a leading metric's past taught.

    lag_steps is None where none was found. shares[h - 1] are, h steps ahead, those of the metric's deviation lag steps
    before the target and of that lag steps before the issue, and the least rise that counts. gain50 and gain95 are the
    shares by which the losses fell on `judged_days` that it had not learned from; None where it was not judged.
    """

    lag_steps: int | None
    shares: Floats
    gain50: float | None
    gain95: float | None
    judged_days: int
    used: bool
    reason: str

    def moves(self, above: Floats, origin: int) -> Floats:
        """By how much it raises the forecast of step `origin`, in z per step ahead; none where it is not known."""
        if not self.used or self.lag_steps is None:
            return np.zeros(0)
        ahead = np.arange(1, self.lag_steps + 1)
        return _moves(above, np.full(len(ahead), origin), ahead, self.lag_steps, self.shares)


def longest_lag_steps(lead_seconds: float, step_seconds: int) -> int:
    """How far a lag is looked for: two lead times, as far as replicas are kept; 3 hours at least, 12 at most."""
    longest = min(LONGEST_LAG_SECONDS, max(_SHORTEST_SEARCH_SECONDS, 2 * lead_seconds))
    return int(longest // step_seconds)


def learn_metric(rows: PastRows, above: Floats, lead_seconds: float) -> LearnedMetric:
    """What the steps known to the rows teach. `above` are the metric's deviations on the steps of their series."""
    panel, known = rows.past.models.panel, rows.past.known_steps
    longest = longest_lag_steps(lead_seconds, panel.series.step_seconds)
    if longest < 1:
        return not_used("the load has too few points for a lag to show")
    seen = np.isfinite(above[:known])
    edges = _edges(seen, known, panel.day)
    if len(edges) < 1 + LEAST_JUDGED_DAYS // 7:
        return not_used(
            f"{seen.sum() / panel.day:.0f} days of it can be held against the weeks before them, "
            f"{_LEAST_LEARNED_DAYS + LEAST_JUDGED_DAYS} are needed"
        )
    if not np.ptp(above[:known][seen]) > _LEAST_MOVE:
        return not_used("it never differs from its usual")
    lags = found_lags(above[:known], rows.deviations[:known], candidate_lags(longest), edges)
    newest = lags[-1]
    if newest is None or any(one is None for one in lags):
        return not_used("it does not rise before the load does", newest)
    same = max(_SAME_LAG_STEPS, _SAME_LAG_SHARE * newest)
    if any(abs((one or 0) - newest) > same for one in lags):
        return not_used("its lag differs from week to week: chance", newest)
    return _judged(rows, above, [one or 0 for one in lags], edges)


def not_used(reason: str, lag: int | None = None) -> LearnedMetric:
    """A metric that was not even judged."""
    return LearnedMetric(lag, np.zeros((0, 3)), None, None, 0, False, reason)


def _edges(seen: Bools, known: int, day: int) -> list[int]:
    """The ends of what is learned from, a week apart, the last one now; before the first lies a week at least."""
    days_seen = np.concatenate([[0], np.cumsum(seen)]) / day
    edges = [known - 7 * day * weeks for weeks in range(_MOST_WEEKS, -1, -1)]
    return [edge for edge in edges if edge > 0 and days_seen[edge] >= 0.8 * _LEAST_LEARNED_DAYS]


def _load_above_usual(panel: Panel) -> Floats:
    deviation = panel.believed - panel.profile_ahead[: len(panel.believed)]
    level = trailing_mean(deviation, panel.day, 0.1)
    return np.clip(deviation - np.nan_to_num(level), -_WILDEST_ERROR, _WILDEST_ERROR)


class PastRows:
    """Past origins and the forecast's errors there, worked out once for all metrics of a load.

    `left_out` are steps within known events, which speak for themselves.
    """

    def __init__(self, past: PastForecasts, left_out: Bools) -> None:
        self.past, self.left_out = past, left_out
        self.every = max(1, _ROWS_EVERY_SECONDS // past.models.panel.series.step_seconds)
        self.origins: Ints = np.arange(past.first_origin, past.known_steps - 1, self.every)
        self._middles: dict[int, Floats] = {}
        self._bands: dict[tuple[int, int, int], Floats] = {}

    @cached_property
    def deviations(self) -> Floats:
        """How far the load is above what was foretold of it; NaN within events."""
        found = _load_above_usual(self.past.models.panel)
        found[self.left_out] = np.nan
        return found

    @cached_property
    def load_above_usual(self) -> Floats:
        """The load itself, as if it were a metric."""
        series = self.past.models.panel.series
        return above_usual(series.values, series, self.past.known_steps)

    def middle(self, ahead: int) -> Floats:
        """The forecast of each origin, in z."""
        if ahead not in self._middles:
            self._middles[ahead] = self.past.middle(self.origins, ahead)
        return self._middles[ahead]

    def actual(self, ahead: int) -> Floats:
        """The load that came; NaN within events."""
        came = self.past.actual(self.origins, ahead)
        target = np.minimum(self.origins + ahead, len(self.left_out) - 1)
        return np.where(self.left_out[target], np.nan, came)

    def offsets(self, origins: Ints, ahead: int) -> Floats:
        """The bands of a day's origins, remade every hour."""
        key = (ahead, int(origins[0]), len(origins))
        if key not in self._bands:
            every = max(1, _BANDS_EVERY_SECONDS // self.past.models.panel.series.step_seconds // self.every)
            found = self.past.offsets(origins[::every], ahead, _LEVELS)
            self._bands[key] = np.repeat(found, every, axis=0)[: len(origins)]
        return self._bands[key]

    def fitted(self, above: Floats, lag: int, ahead: int, edge: int) -> Floats:
        """The two shares by what was known at `edge`, and the least rise that counts: what would have erred least."""
        signals = _signals(above, self.origins, ahead, lag)
        error = np.clip(self.actual(ahead) - self.middle(ahead), -_WILDEST_ERROR, _WILDEST_ERROR)
        seen = np.column_stack([error, signals])
        good = np.isfinite(seen).all(axis=1) & (self.origins + ahead < edge)
        if not good.any():
            return _NOTHING
        design = np.column_stack([signals[good], np.ones(int(good.sum()))])
        scale = np.sqrt((design**2).mean(axis=0)) + 1e-6
        design /= scale
        penalty = np.diag([_STRENGTH, _STRENGTH, 0.1])
        shares = (np.linalg.solve(design.T @ design + penalty, design.T @ error[good]) / scale)[:2]
        raised = _raised(signals[good], shares)
        noise = 1.4826 * float(np.median(np.abs(raised)))
        choices = [_LEAST_MOVE, *(times * noise for times in _NOISES if times * noise > _LEAST_MOVE)]
        errors = [float(np.abs(error[good] - np.where(raised >= one, raised, 0.0)).sum()) for one in choices]
        return np.array([*shares, choices[int(np.argmin(errors))]])

    def moves(self, above: Floats, lag: int, ahead: int, shares: Floats) -> Floats:
        """What it would have raised each forecast by."""
        ahead_of_each = np.full(len(self.origins), ahead)
        return _moves(above, self.origins, ahead_of_each, lag, np.tile(shares, (len(self.origins), 1)))


def _signals(above: Floats, origins: Ints, ahead: int | Ints, lag: int) -> Floats:
    """Deviations [origin, (lag steps before the target, lag steps before the issue)]; NaN where not known."""
    columns = [origins + ahead - lag, origins - lag]
    return np.stack([np.where(at >= 0, above[np.maximum(at, 0)], np.nan) for at in columns], axis=1)


def _moves(above: Floats, origins: Ints, ahead: Ints, lag: int, shares: Floats) -> Floats:
    raised = _raised(_signals(above, origins, ahead, lag), shares[:, :2])
    raised = np.where(np.isfinite(raised) & (raised >= shares[:, 2]), raised, 0.0)
    return np.minimum(raised, _MOST_MOVE)


def _raised(signals: Floats, shares: Floats) -> Floats:
    """What rises with the metric, less what the forecast knows of it already; a low metric raises nothing."""
    parts = signals * shares
    rising = np.where((signals[:, 0] > 0) & (parts[:, 0] > 0), parts[:, 0], 0.0)
    return np.asarray(rising + np.minimum(parts[:, 1], 0.0), dtype=float)


@dataclass(frozen=True)
class _Losses:
    """Mean losses [day, (p50, p95)] in load units, without the metric and with it, of days in order of time."""

    without: Floats
    aware: Floats

    @property
    def gains(self) -> Floats:
        """The share by which each loss fell over all days."""
        return _fallen(self.without, self.aware)

    @property
    def last_week(self) -> Floats:
        """The same of the last seven days."""
        return _fallen(self.without[-7:], self.aware[-7:])

    @property
    def standard_errors(self) -> Floats:
        """By how many of them each loss fell."""
        fell = self.without - self.aware
        error = fell.std(axis=0, ddof=1) / np.sqrt(len(fell))
        return np.where(error > 0, fell.mean(axis=0) / np.maximum(error, 1e-300), 0.0)


def _fallen(without: Floats, aware: Floats) -> Floats:
    before = without.sum(axis=0)
    return np.where(before > 0, 1 - aware.sum(axis=0) / np.maximum(before, 1e-300), 0.0)


def _judged(rows: PastRows, above: Floats, lags: list[int], edges: list[int]) -> LearnedMetric:
    lag = lags[-1]
    days = list(_days(rows, (above, rows.load_above_usual), lags, edges))
    if len(days) < LEAST_JUDGED_DAYS:
        return not_used(f"it can be judged on {len(days)} days, {LEAST_JUDGED_DAYS} are needed", lag)
    without, aware, by_load = np.stack(days, axis=1)
    losses = _Losses(without, aware)
    gain50, gain95 = (float(one) for one in losses.gains)
    told = (
        f"on {len(days)} days that it had not learned from, the loss of p50 was {_change(gain50)} and that of p95 "
        f"{_change(gain95)}"
    )
    objection = _objection(losses, _Losses(by_load, aware))
    if objection is not None:
        told = f"{told}: {objection}"
    shares = np.zeros((0, 3)) if objection else _shares(rows, above, lag, edges)
    return LearnedMetric(lag, shares, gain50, gain95, len(days), objection is None, told)


def _change(gain: float) -> str:
    return f"{abs(gain):.0%} {'lower' if gain >= 0 else 'higher'}"


def _objection(losses: _Losses, beside_load: _Losses) -> str | None:
    at50, at95 = losses.gains
    if at95 < LEAST_GAIN:
        return f"that of p95 must fall by {LEAST_GAIN:.0%}"
    if beside_load.gains[1] < LEAST_GAIN:
        return "the load itself says as much"
    if at50 < -_HARMLESS:
        return f"that of p50 may rise by {_HARMLESS:.0%}"
    if losses.standard_errors[1] < LEAST_STANDARD_ERRORS:
        return "on too few of them to be more than chance"
    if (losses.last_week < -_HARMLESS).any():
        return "but in the last week it was higher with it"
    return None


def _days(
    rows: PastRows, deviations: tuple[Floats, ...], lags: list[int], edges: list[int]
) -> Iterator[Floats]:
    """Losses [(without, with each of the deviations), (p50, p95)] of each day, by what was known at the edge before."""
    panel = rows.past.models.panel
    highest = np.fmax.accumulate(panel.believed)
    for edge, end, lag in zip(edges, edges[1:], lags, strict=False):
        middle, actual = rows.middle(lag), rows.actual(lag)
        moves = [rows.moves(one, lag, lag, rows.fitted(one, lag, lag, edge)) for one in deviations]
        for first in range(edge, end, panel.day):
            within = (rows.origins >= first) & (rows.origins < min(end, first + panel.day))
            inside = np.flatnonzero(within & np.isfinite(actual))
            if not len(inside):
                continue
            at = rows.origins[inside]
            z = middle[inside, None] + rows.offsets(at, lag)
            each = [z, *(raised_by(z, one[inside, None], highest[at][:, None]) for one in moves)]
            yield np.stack([_mean_losses(panel, actual[inside], one) for one in each])


def _mean_losses(panel: Panel, actual: Floats, z: Floats) -> Floats:
    load, quantiles = panel.load(actual), panel.load(z)
    each = [pinball(load, quantiles[:, at], level).mean() for at, level in enumerate(_LEVELS)]
    return np.array(each, dtype=float)


def raised_by(z: Floats, moves: Floats, highest: Floats) -> Floats:
    """Quantiles raised, but not above the highest load; one that is there already stays."""
    return np.where(moves > 0, np.maximum(z, np.minimum(z + moves, highest)), z)


def _shares(rows: PastRows, above: Floats, lag: int, edges: list[int]) -> Floats:
    """What counts [step ahead]; nothing at the steps where it would have done harm lately."""
    chosen = np.unique(np.linspace(1, lag, _HORIZONS).round().astype(np.int64))
    found = []
    for ahead in chosen.tolist():
        helps = ahead == lag or _helps(rows, above, lag, ahead, edges)
        found.append(rows.fitted(above, lag, ahead, edges[-1]) if helps else _NOTHING)
    # Between two of them as at the later one.
    return np.stack(found)[np.searchsorted(chosen, np.arange(1, lag + 1))]


def _helps(rows: PastRows, above: Floats, lag: int, ahead: int, edges: list[int]) -> bool:
    """Whether errors so far ahead would have been smaller in the later half, by what the earlier one taught."""
    border = edges[len(edges) // 2]
    moves = rows.moves(above, lag, ahead, rows.fitted(above, lag, ahead, border))
    error = rows.actual(ahead) - rows.middle(ahead)
    later = (rows.origins >= border) & np.isfinite(error)
    return bool(np.abs(error - moves)[later].sum() < np.abs(error)[later].sum())
