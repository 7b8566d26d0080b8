"""The orders in which the calls of two functions can come, with up to two preemptions, that differ in anything.

The first function is preempted before its call i; the second runs up to its call j, or to its end; then the first runs
to its end, and the second. Of the moments between two calls that the other function touches only the last one counts:
calls that share nothing give the same in either order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from sim.explorer.accesses import Access
from sim.explorer.strands import Made, Turn

Turns = tuple[Turn, ...]


def turns_of(first: int, i: int, j: int | None) -> Turns:
    """The schedule: the first strand up to its call i, the other up to its call j or its end, the first, the other."""
    other = 1 - first
    return (Turn(first, i), Turn(other, j), Turn(first), Turn(other))


def described(turns: Sequence[Turn]) -> str:
    """A schedule as text, `0<5 1<3 0 1`: strand 0 until before its call 5, and so on."""
    return " ".join(f"{one.strand}" if one.until is None else f"{one.strand}<{one.until}" for one in turns)


def explore(run: Callable[[Turns], list[Made]], alike: bool) -> Iterator[Turns]:
    """Run every order that differs; gives each. Of two functions that are alike either may be the first."""
    in_turn = []
    for first in (0,) if alike else (0, 1):
        yield (turns := (Turn(first), Turn(1 - first)))
        in_turn.append(run(turns))
    for first, made in enumerate(in_turn):
        whole = [one.access for one in made if one.strand == first]
        others = [one.access for calls in in_turn for one in calls if alike or one.strand != first]
        for i in range(1, len(whole)):
            if whole[i].meets(others):
                yield from _preempted(run, first, i, whole)


def _preempted(
    run: Callable[[Turns], list[Made]], first: int, i: int, whole: Sequence[Access]
) -> Iterator[Turns]:
    yield (turns := turns_of(first, i, None))
    made = run(turns)
    places = [place for place, one in enumerate(made) if one.strand == first]
    end = places[i] if i < len(places) else len(made)
    between = [one.access for one in made[places[i - 1] + 1 : end]]
    rest = [*whole[i:], *(made[place].access for place in places[i:])]
    for j in range(1, len(between)):
        if between[j].meets(rest):
            yield (turns := turns_of(first, i, j))
            run(turns)


def drawn(calls: int, count: int, chance: random.Random, first: int = 0) -> list[Turns]:
    """A few orders of functions of that many calls."""
    pairs = [(i, j) for i in range(1, calls) for j in (*range(1, calls), None)]
    return [turns_of(first, *pair) for pair in chance.sample(pairs, min(count, len(pairs)))]
