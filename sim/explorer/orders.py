"""The orders in which the calls of two functions can come, with up to two preemptions, that differ in anything.

In the order (i, j) the first function runs until before its call i, the second until before its call j, or to its end;
then the first runs to its end, and the second. Two calls commute when neither writes what the other reads or writes
(`accesses`); orders that differ in the order of commuting calls alone give the same answers and the same account. So
one of each set of equal orders is run, whatever comes after it included:

* (i, j) equals (i + 1, j) when the first's call i commutes with the second's calls before j;
* (i, j) equals (i, j + 1) when the second's call j commutes with the calls that the first then has left;
* (i, j) equals the second's own order (j, to the end) when the first's calls before i commute with the second's
  before j.

What each function has left is read off the order that was run last, never guessed: calls that commute get the same
answers, so a function goes on alike in equal orders. A rule always points to a later or a simpler order, which is run
or points on: none is lost. `tests/explorer/test_orders.py` compares this with all orders.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from sim.explorer.accesses import Access
from sim.explorer.strands import Made, Turn

Turns = tuple[Turn, ...]


def turns_of(first: int, i: int, j: int | None) -> Turns:
    """The schedule of the order (i, j)."""
    other = 1 - first
    return (Turn(first, i), Turn(other, j), Turn(first), Turn(other))


def described(turns: Sequence[Turn]) -> str:
    """A schedule as text, `0<5 1<3 0 1`: strand 0 until before its call 5, and so on."""
    return " ".join(f"{one.strand}" if one.until is None else f"{one.strand}<{one.until}" for one in turns)


def explore(
    run: Callable[[Turns], Sequence[Made]],
    alike: bool,
    meets: Callable[[Access, Collection[Access]], bool] = Access.meets,
) -> int:
    """Run every order that differs; returns how many. Of two functions that are alike either may be the first."""
    firsts = (0,) if alike else (0, 1)
    in_turn = [run((Turn(first), Turn(1 - first))) for first in firsts]
    tried = len(firsts)
    for first, made in zip(firsts, in_turn, strict=True):
        own = _of(first, made)
        others = _of(1 - first, made)
        for i in range(len(own) - 1, 0, -1):
            if not meets(own[i], others):
                continue
            made = run(turns_of(first, i, None))
            others, rest = _of(1 - first, made), _of(first, made)[i:]
            tried += 1
            for j in range(len(others) - 1, 0, -1):
                before = others[:j]
                if not meets(own[i], before) or not any(meets(one, before) for one in own[:i]):
                    # Nor with fewer of the other's calls.
                    break
                if meets(others[j], rest):
                    rest = _of(first, run(turns_of(first, i, j)))[i:]
                    tried += 1
    return tried


def _of(strand: int, made: Sequence[Made]) -> list[Access]:
    return [one.access for one in made if one.strand == strand]


def drawn(calls: int, count: int, chance: random.Random, first: int = 0) -> list[Turns]:
    """A few orders of functions of that many calls."""
    pairs = [(i, j) for i in range(1, calls) for j in (*range(1, calls), None)]
    return [turns_of(first, *pair) for pair in chance.sample(pairs, min(count, len(pairs)))]
