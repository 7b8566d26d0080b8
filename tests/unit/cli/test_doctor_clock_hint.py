"""`peaker doctor` says when a load followed another clock than that of its settings."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from peaker.domain.forecasting import LoadSeries
from peaker_cli.doctor.metrics import better_zone

from tests.unit.domain.forecasting.test_local_clock import AUTUMN, DAY, SPRING, STEP, by_local_hour

ZONES = {name: ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney")}


@pytest.mark.parametrize("change", [SPRING, AUTUMN])
@pytest.mark.parametrize(
    ("readers", "setting", "found"),
    [
        ("Europe/Berlin", "UTC", "Europe/Berlin"),
        ("UTC", "Europe/Berlin", "UTC"),
        ("Europe/Madrid", "Europe/Berlin", None),
        ("UTC", "UTC", None),
    ],
)
def test_a_week_after_a_change_says_whose_clock_a_load_follows(
    change: float, readers: str, setting: str, found: str | None
) -> None:
    series = by_local_hour(change, 20, 5, readers)
    series.values[:] *= np.exp(np.random.default_rng(3).normal(0, 0.02, len(series.values)))
    assert better_zone(series, ZoneInfo(setting), ZONES) == found


@pytest.mark.parametrize(("days_before", "days_after"), [(20, 1), (6, 5)])
def test_too_little_about_a_change_says_nothing(days_before: int, days_after: int) -> None:
    series = by_local_hour(AUTUMN, days_before, days_after, "Europe/Berlin")
    assert better_zone(series, UTC, ZONES) is None


def test_a_load_without_a_rhythm_says_nothing() -> None:
    values = 100 * np.exp(np.random.default_rng(5).normal(0, 0.3, 25 * DAY))
    assert better_zone(LoadSeries(AUTUMN - 20 * 86_400, STEP, values), UTC, ZONES) is None
