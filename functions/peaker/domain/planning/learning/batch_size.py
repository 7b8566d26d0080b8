"""What members of a batch that are at work side by side cost each other. Pure.

On AWS each has a host and volumes of its own, so that nothing is reckoned until it was measured. Hosts that share
processors or a disk are slower together: never more than if they took turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

# A difference that runs of one cluster vary by as a rule is none: an assumption, as in `drawing`.
_RUNS_VARY = 0.25
# The prior, that members cost each other nothing, counts as this many runs.
_PRIOR_RUNS = 1.0


def for_batch(seconds: Sequence[float], sizes: Sequence[int | None], members: int) -> list[float]:
    """What each past duration would have been among so many members; `sizes`: among how many it was, None where
    nobody says. Those of unknown size, and all where no size was ever measured beside another, stay as they are.
    """
    known = [*[None] * (len(seconds) - len(sizes)), *list(sizes)[max(0, len(sizes) - len(seconds)) :]]
    further = _each_further(seconds, known)
    if further <= 0:
        return list(seconds)
    return [
        took if size is None else took * _factor(members, further) / _factor(size, further)
        for took, size in zip(seconds, known, strict=True)
    ]


def _factor(members: int, further: float) -> float:
    return 1 + further * (members - 1)


def _each_further(seconds: Sequence[float], sizes: Sequence[int | None]) -> float:
    """By what share of the time alone each further member makes it longer, 0 to 1, drawn towards 0."""
    alone = [took for took, size in zip(seconds, sizes, strict=True) if size == 1]
    if not alone or (base := median(alone)) <= 0:
        return 0.0
    beside = [
        (took / base - 1) / (size - 1)
        for took, size in zip(seconds, sizes, strict=True)
        if size is not None and size > 1
    ]
    if not beside or (share := median(beside)) < _RUNS_VARY:
        return 0.0
    runs = min(len(alone), len(beside))
    return min(1.0, share) * runs / (runs + _PRIOR_RUNS)
