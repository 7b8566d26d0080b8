"""Bounds against exact sums."""

from __future__ import annotations

import math

import pytest
from peaker_host.prove.statistics_of_samples import (
    binomial_lower,
    binomial_upper,
    drawn_upper,
    quantile,
    sample_size_to_see,
    trimmed_mean,
)


def at_most(successes: int, trials: int, share: float) -> float:
    return sum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(successes + 1))


@pytest.mark.parametrize(("successes", "trials"), [(0, 30), (1, 411), (7, 411), (200, 411), (40, 3288)])
@pytest.mark.parametrize("alpha", [0.05, 2.5e-4])
def test_the_bounds_are_where_the_tail_has_probability_alpha(
    successes: int, trials: int, alpha: float
) -> None:
    upper, lower = binomial_upper(successes, trials, alpha), binomial_lower(successes, trials, alpha)
    assert at_most(successes, trials, upper) == pytest.approx(alpha, rel=1e-3)
    if successes:
        assert 1 - at_most(successes - 1, trials, lower) == pytest.approx(alpha, rel=1e-3)
    assert lower <= successes / trials <= upper


@pytest.mark.parametrize(("successes", "drawn", "population"), [(0, 300, 383), (2, 50, 200), (5, 411, 5000)])
def test_the_bound_of_a_finite_population_is_the_last_share_that_is_not_ruled_out(
    successes: int, drawn: int, population: int
) -> None:
    def so_few(marked: int) -> float:
        ways = sum(
            math.comb(marked, k) * math.comb(population - marked, drawn - k) for k in range(successes + 1)
        )
        return ways / math.comb(population, drawn)

    marked = round(drawn_upper(successes, drawn, population, 1e-3) * population)
    assert so_few(marked) > 1e-3 >= so_few(marked + 1)


def test_when_all_is_drawn_the_share_is_known() -> None:
    assert drawn_upper(7, 100, 100, 1e-3) == 0.07
    assert drawn_upper(0, 0, 100, 1e-3) == 1.0


def test_extremes() -> None:
    assert binomial_upper(5, 5, 0.01) == 1.0
    assert binomial_lower(0, 5, 0.01) == 0.0
    assert (binomial_upper(0, 0, 0.01), binomial_lower(0, 0, 0.01)) == (1.0, 0.0)


def test_the_sample_in_which_two_percent_cannot_hide() -> None:
    assert sample_size_to_see(0.02, 1e-3) == 342
    assert 0.98**342 <= 1e-3 < 0.98**341


def test_quantiles_and_trimmed_means() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([7.0], 0.99) == 7.0
    assert trimmed_mean([1.0] * 19 + [1000.0], 0.05) == 1.0
    assert trimmed_mean([2.0], 0.4) == 2.0
