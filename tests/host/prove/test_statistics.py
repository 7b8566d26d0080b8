"""Bounds against exact sums."""

from __future__ import annotations

import math

import pytest
from peaker_host.prove.storage_proof import (
    quantile,
    sample_size_to_see,
    share_lower,
    share_upper,
    trimmed_mean,
)


@pytest.mark.parametrize(("successes", "drawn", "population"), [(0, 300, 383), (2, 50, 200), (5, 411, 5000)])
def test_the_bound_of_a_finite_population_is_the_last_share_that_is_not_ruled_out(
    successes: int, drawn: int, population: int
) -> None:
    def so_few(marked: int) -> float:
        ways = sum(
            math.comb(marked, k) * math.comb(population - marked, drawn - k) for k in range(successes + 1)
        )
        return ways / math.comb(population, drawn)

    marked = round(share_upper(successes, drawn, population, 1e-3) * population)
    assert so_few(marked) > 1e-3 >= so_few(marked + 1)


def test_when_all_is_drawn_the_share_is_known() -> None:
    assert share_upper(7, 100, 100, 1e-3) == 0.07
    assert share_upper(0, 0, 100, 1e-3) == 1.0


def test_the_lower_bound_is_the_upper_one_of_what_was_not_seen() -> None:
    assert share_lower(0, 300, 10**6, 1e-3) == 0.0
    assert share_lower(5, 5, 5, 1e-3) == 1.0
    lower = share_lower(7, 411, 10**6, 0.005)
    six_or_fewer = sum(math.comb(411, k) * lower**k * (1 - lower) ** (411 - k) for k in range(7))
    assert 1 - six_or_fewer == pytest.approx(0.005, rel=0.02), "as of an unlimited population"


def test_the_sample_in_which_two_percent_cannot_hide() -> None:
    assert sample_size_to_see(0.02, 1e-3) == 342
    assert 0.98**342 <= 1e-3 < 0.98**341


def test_quantiles_and_trimmed_means() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([7.0], 0.99) == 7.0
    assert trimmed_mean([1.0] * 19 + [1000.0], 0.05) == 1.0
    assert trimmed_mean([2.0], 0.4) == 2.0
