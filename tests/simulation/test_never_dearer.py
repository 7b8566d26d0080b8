"""What cannot be forecast costs no more than the simple choices, whatever the load goes through."""

from __future__ import annotations

import numpy as np
import pytest
from peaker_backtest.replay.simulation import Scenario

from tests.support.drawn_cases import KINDS, case_of, degraded_price
from tests.unit.domain.forecasting.loads import daily, series

DAY = 96


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_it_is_never_dearer_than_reactive_scaling_that_is_short_as_much_nor_than_a_static_peak(
    kind: int,
) -> None:
    for round_ in range(3):
        price = degraded_price(case_of(kind + round_ * len(KINDS)))
        assert price.over_the_bound <= 1 + 1e-9, price


def scene(values: np.ndarray, **changes: object) -> Scenario:
    given: dict[str, object] = {
        "series": series(values),
        "first": 15 * DAY,
        "last": len(values),
        "lead_steps": 4,
        "capacity_per_replica": 40.0,
    }
    return Scenario(**{**given, **changes})  # type: ignore[arg-type]


def test_lead_times_are_drawn_around_their_median_and_are_the_same_for_every_policy() -> None:
    drawn = scene(daily(16), lead_steps=20, lead_spread=1.5)
    leads = [step for step, _ in zip(drawn.drawn_lead_steps(), range(400), strict=False)]
    assert 19 <= np.median(leads) <= 21
    assert np.quantile(leads, 0.9) == pytest.approx(30, abs=2)
    assert drawn.lead_seconds == 30 * 900
    again = [step for step, _ in zip(drawn.drawn_lead_steps(), range(400), strict=False)]
    assert again == leads
