"""The demonstration's clock follows what the machine has left."""

from __future__ import annotations

import pytest

from demo.pace import FASTEST, SLOWEST, clock_scale, processor_share


@pytest.mark.parametrize(
    ("share", "scale"), [(1.0, FASTEST), (0.9, FASTEST), (0.5, 40), (0.25, 20), (0.0, SLOWEST)]
)
def test_the_day_takes_longer_where_others_need_the_processors(share: float, scale: float) -> None:
    assert clock_scale(share) == scale


def test_the_share_is_measured() -> None:
    assert 0 < processor_share(seconds=0.05) <= 1
