"""The orders in which the calls of two functions can come, with up to two preemptions, that differ in anything.

The first function is preempted before its call i; the second runs up to its call j, or to its end; then the first runs
to its end, and the second. An order is left out where it is another one with two neighbours exchanged that share
nothing: such calls give the same either way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class _Seen:
    """Of an order that was run, or is the same as one: the calls of the second up to j, and the rest of the first's."""

    segment: tuple[Access, ...]
    rest: tuple[Access, ...]


def explore(run: Callable[[Turns], list[Made]], first: int) -> Iterator[tuple[Turns, bool]]:
    """Run every order that differs; gives each order with whether it was run, the same as another one otherwise."""
    whole = [one.access for one in run((Turn(first), Turn(1 - first))) if one.strand == first]
    yield (Turn(first), Turn(1 - first)), True
    after: dict[int | None, _Seen] = {}
    for i in reversed(range(1, len(whole))):
        here: dict[int | None, _Seen] = {0: _Seen((), tuple(whole[i:]))}
        turns = turns_of(first, i, None)
        seen, ran = _one(run, turns, whole[i], after.get(None), first, i)
        yield turns, ran
        here[None] = seen
        others = seen.segment
        for j in range(1, len(others)):
            turns = turns_of(first, i, j)
            before = here.get(j - 1)
            if before is not None and not any(others[j - 1].meets(one) for one in before.rest):
                here[j] = _Seen(others[:j], before.rest)
                yield turns, False
                continue
            here[j], ran = _one(run, turns, whole[i], after.get(j), first, i)
            yield turns, ran
        after = here


def _one(
    run: Callable[[Turns], list[Made]], turns: Turns, call: Access, later: _Seen | None, first: int, i: int
) -> tuple[_Seen, bool]:
    """The order, unless it is that with the preemption a call later: `call` shares nothing with what came between."""
    if later is not None and not any(call.meets(one) for one in later.segment):
        return _Seen(later.segment, (call, *later.rest)), False
    return _seen(run(turns), first, i), True


def _seen(made: Sequence[Made], first: int, i: int) -> _Seen:
    places = [place for place, one in enumerate(made) if one.strand == first]
    begin = places[i - 1] + 1
    end = next((place for place in range(begin, len(made)) if made[place].strand == first), len(made))
    rest = [made[place].access for place in places[i:]]
    return _Seen(tuple(one.access for one in made[begin:end]), tuple(rest))


def drawn(first: int, calls: int, count: int, chance: random.Random) -> list[Turns]:
    """A few orders of functions of that many calls."""
    pairs = [(i, j) for i in range(1, calls) for j in (*range(1, calls), None)]
    return [turns_of(first, *pair) for pair in chance.sample(pairs, min(count, len(pairs)))]
