"""The protocol keeps the invariants in every order of events, and would not without its protections."""

from __future__ import annotations

import pytest

from bench.model.check import MUTATIONS, Mutation, check, check_liveness

# Cheap ones; `python -m bench.model.check` has all.
QUICK = ("WITHOUT_WAIT", "WITHOUT_SWEEP")


def test_one_trouble_at_any_moment_breaks_no_invariant() -> None:
    found = check(troubles=1)
    print(f"{found.states:,} states explored")
    assert (found.broken, found.complete) == (None, True)
    assert found.states > 100_000


@pytest.mark.parametrize(
    "mutation", [one for one in MUTATIONS if one.name in QUICK], ids=lambda one: one.name
)
def test_without_a_protection_an_invariant_is_broken(mutation: Mutation) -> None:
    assert check(mutation.name, troubles=mutation.troubles).broken in mutation.breaks


def test_a_stop_is_followed_by_a_free_lease_in_every_fair_story() -> None:
    found = check_liveness("a_stop_is_followed_by_a_free_lease")
    assert (found.broken, found.complete) == (None, True)


def test_what_a_stop_leaves_would_stay_without_the_sweep() -> None:
    assert check_liveness("converges", "WITHOUT_SWEEP").broken == "converges"
