"""What knowing leading metrics would have come to, in figures: the same replay with them and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from peaker.domain.forecasting.record import pinball

from peaker_backtest.replay.simulation import Outcome, Scenario

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LeadingGain:
    """Two replays held against each other over `steps` compared steps, one lead time ahead.

    The losses are those with the metrics, of those without; None where nothing was compared. `learned` is what the
    newest forecast says of each metric, `without` the replay that knew of none.
    """

    names: tuple[str, ...]
    learned: tuple[str, ...]
    steps: int
    pinball50_to_without: float | None
    pinball95_to_without: float | None
    without: Outcome


@dataclass(frozen=True)
class Foretold:
    """p50 and p95 of each replayed step, as they were one lead time before; NaN where there was no forecast."""

    p50: Floats
    p95: Floats


def leading_gain(
    scenario: Scenario, aware: Foretold, unaware: Foretold, learned: tuple[str, ...], without: Outcome
) -> LeadingGain:
    """The figures of both replays."""
    load = scenario.load()
    good = np.isfinite(load + aware.p95 + unaware.p95)
    good[: scenario.compared_from - scenario.first] = False

    def ratio(level: float, ours: Floats, theirs: Floats) -> float | None:
        loss = float(pinball(load[good], theirs[good], level).sum())
        return float(pinball(load[good], ours[good], level).sum()) / loss if loss > 0 else None

    return LeadingGain(
        names=tuple(one.name for one in scenario.leading),
        learned=learned,
        steps=int(good.sum()),
        pinball50_to_without=ratio(0.5, aware.p50, unaware.p50),
        pinball95_to_without=ratio(0.95, aware.p95, unaware.p95),
        without=without,
    )
