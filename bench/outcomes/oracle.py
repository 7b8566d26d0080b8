"""How far off a planner would be that knows each cluster's constants and each law: what runs vary by themselves. Pure.

Its plan of a part is the median of what the same run of the same cluster took in other worlds, whose volumes, copies
and calls were drawn anew. It is a little further off than the laws are wide, because the worlds are few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from bench.outcomes.errors import Compared, Pair, compared, counts
from bench.outcomes.runs import Outcome

_Key = tuple[str, int, int, str, str]
_WHOLE = "whole"


def of_parts(found: Sequence[Outcome], elsewhere: Iterable[Outcome]) -> Compared:
    """Over each part that is large enough, of the replicas that came by the same method in another world too."""
    known = _known(elsewhere)
    pairs = []
    for one in found:
        for part, took in _took(one):
            times = known.get(_key(one, part))
            if part != _WHOLE and times:
                pair = Pair(median(times), None, took)
                pairs += [pair] if counts(one, pair) else []
    return compared(pairs)


def of_wholes(found: Sequence[Outcome], elsewhere: Iterable[Outcome]) -> Compared:
    """Over the lead time of each of these replicas."""
    known = _known(elsewhere)
    return compared(
        [
            Pair(median(known[_key(one, _WHOLE)]), None, one.outcome.took_seconds)
            for one in found
            if _key(one, _WHOLE) in known
        ]
    )


def _known(outcomes: Iterable[Outcome]) -> dict[_Key, list[float]]:
    known: dict[_Key, list[float]] = defaultdict(list)
    for one in outcomes:
        for part, took in _took(one):
            known[_key(one, part)].append(took)
    return known


def _key(outcome: Outcome, part: str) -> _Key:
    return outcome.cluster, outcome.turn, outcome.member, outcome.method, part


def _took(outcome: Outcome) -> list[tuple[str, float]]:
    parts = [(one.part, one.took_seconds) for one in outcome.outcome.parts if one.took_seconds is not None]
    return [*parts, (_WHOLE, outcome.outcome.took_seconds)]
