"""The protocol keeps the invariants in every order of events, and would not without its protections."""

from __future__ import annotations

import pytest

from model.check import LIVENESS, MUTATIONS, Mutation, check, check_liveness

# Cheap ones; `python -m model.check` has all.
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


@pytest.mark.parametrize("formula", LIVENESS)
def test_what_a_stop_leaves_vanishes_in_every_fair_story_and_would_stay_without_the_sweep(
    formula: str,
) -> None:
    if formula == LIVENESS[0]:  # the other one's search takes longer; `make model` has both
        found = check_liveness(formula)
        assert (found.broken, found.complete) == (None, True)
    assert check_liveness(formula, "WITHOUT_SWEEP").broken == formula
