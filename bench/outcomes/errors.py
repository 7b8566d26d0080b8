"""How far plans are off: by part of the lead time and by the whole. Pure.

A part counts where plan or truth has at least ten seconds and a hundredth of the replica's lead time; what is smaller
in both is counted apart, by its seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from peaker.domain.report.plan_outcome import PartOutcome

from bench.outcomes.runs import Outcome

FLOOR_SECONDS, FLOOR_SHARE = 10.0, 0.01


@dataclass(frozen=True)
class Compared:
    """Errors as shares of the truth: their median, the p90, and how many there are.

    `covered`: of those that the plan gave a p90 for, the share whose truth is not above it; `promised` how many.
    """

    count: int
    median: float
    p90: float
    covered: float
    promised: int


@dataclass(frozen=True)
class Pair:
    """A planned time, its p90 where the plan has one, and the truth; seconds."""

    planned: float
    planned_p90: float | None
    took: float

    @property
    def error(self) -> float:
        """The share of the truth by which the plan was off; of no time at all it is off by all of itself."""
        return abs(self.planned - self.took) / max(self.took, 1.0)


def compared(pairs: Sequence[Pair]) -> Compared:
    """Raises ValueError of none."""
    if not pairs:
        raise ValueError("nothing was planned and measured")
    errors = sorted(one.error for one in pairs)
    promised = [one for one in pairs if one.planned_p90 is not None]
    kept = sum(1 for one in promised if one.took <= (one.planned_p90 or 0.0))
    return Compared(
        len(errors),
        median(errors),
        errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        kept / len(promised) if promised else 0.0,
        len(promised),
    )


def parts(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, PartOutcome, Pair]]:
    """Each part of each replica that has both figures."""
    return [
        (one, part, Pair(part.planned_seconds, part.planned_p90_seconds, part.took_seconds))
        for one in outcomes
        for part in one.outcome.parts
        if part.planned_seconds is not None and part.took_seconds is not None
    ]


def counts(outcome: Outcome, pair: Pair) -> bool:
    """Whether it is large enough for a share to say anything."""
    floor = max(FLOOR_SECONDS, FLOOR_SHARE * outcome.outcome.took_seconds)
    return max(pair.planned, pair.took) >= floor


def of_parts(outcomes: Sequence[Outcome]) -> Compared:
    """Over each part of each replica that counts."""
    return compared([pair for one, _, pair in parts(outcomes) if counts(one, pair)])


def of_wholes(outcomes: Sequence[Outcome]) -> Compared:
    """Over the lead time of each replica."""
    found = (one.outcome for one in outcomes)
    return compared([Pair(one.planned_seconds, one.planned_p90_seconds, one.took_seconds) for one in found])


def small(outcomes: Sequence[Outcome]) -> tuple[int, float]:
    """How many parts are too small, and the largest error among them in seconds."""
    found = [abs(pair.planned - pair.took) for one, _, pair in parts(outcomes) if not counts(one, pair)]
    return len(found), max(found, default=0.0)


def unplanned(outcomes: Sequence[Outcome]) -> int:
    """Parts that a replica passed and its plan had no figure for."""
    return sum(
        1
        for one in outcomes
        for part in one.outcome.parts
        if part.planned_seconds is None and part.took_seconds is not None
    )
