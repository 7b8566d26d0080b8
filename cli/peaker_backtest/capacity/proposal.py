"""What a replica can be said to serve: a figure with its bounds, "at least", or unknown with the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from peaker.domain.planning.reaction import load_text
from peaker.domain.reading import Unknown

from peaker_backtest.capacity.evidence import (
    OVER_SHARE,
    Bounds,
    OddDay,
    bounds,
    odd_days,
    rank_correlation,
)
from peaker_backtest.capacity.observations import Limit, Observations

LEAST_DAYS = 7
# Below it the measure does not rise with the load by more than what unrelated series do by accident.
LEAST_CORRELATION = 0.2
# So many odd days are left out; where there are more, they are not odd.
MOST_ODD_SHARE = 1 / 7
_DIGITS = 3
# A highest measure so far below the limit is in another unit.
_OTHER_UNIT = 0.01


class Standing(StrEnum):
    MEASURED = "measured"
    AT_LEAST = "at_least"
    UNKNOWN = "unknown"


class SettingNow(StrEnum):
    """What the evidence says of the capacity that is set."""

    HOLDS = "holds"
    NOT_SHOWN = "not_shown"
    TOO_HIGH = "too_high"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Evidence:
    """What the answer rests on; loads per replica in load-metric units, measures in the limit's unit.

    upper_at_highest: 95th percentile of the measure among the highest twentieth of the loads. correlation:
    Spearman's, of measure and load.
    """

    observations: int
    days: int
    replicas: tuple[int, int]
    highest_load: float
    upper_at_highest: float
    highest_measure: float
    over_limit: int
    correlation: float
    odd: tuple[OddDay, ...]
    notes: tuple[str, ...]
    bounds: Bounds


@dataclass(frozen=True)
class CapacityProposal:
    """The capacity per replica that the observations prove, and what they say of that of now. Nothing is changed by it.

    capacity: at up to so much load per replica the measure stays within the limit in 95 % of the steps, at 95 %
    confidence; None where that is not known. estimate and passed_at: the middle and the upper end where the limit was
    reached. now is None where no capacity was given.
    """

    standing: Standing
    reason: str
    limit: Limit
    now: float | None
    setting: SettingNow
    capacity: float | None = None
    estimate: float | None = None
    passed_at: float | None = None
    evidence: Evidence | None = None

    @property
    def proposed(self) -> float | None:
        """The capacity to set instead of that of now; None where that of now stays, or nothing better is known."""
        if self.capacity is None:
            return None
        above = self.now is not None and self.capacity <= self.now
        return None if self.standing is Standing.AT_LEAST and above else self.capacity


def propose_capacity(seen: Observations | Unknown, limit: Limit, now: float | None) -> CapacityProposal:
    """What one replica serves within the limit, by what was seen of it. `now` is what is set, None where nothing is."""
    if isinstance(seen, Unknown):
        return _unknown(seen.why, limit, now, None)
    odd = tuple(odd_days(seen))
    days = seen.day_count
    all_seen, seen = seen, seen.without_days([one.day for one in odd])
    if days - len(odd) < LEAST_DAYS:
        rest = f" without {len(odd)} odd ones" if odd else ""
        return _unknown(
            f"load, measure and replicas are known together on {days - len(odd)} days{rest}, and {LEAST_DAYS} are "
            f"needed",
            limit, now, None,
        )  # fmt: skip
    found = bounds(seen, limit.value)
    evidence = _evidence(seen, odd, found, limit)
    if len(odd) > MOST_ODD_SHARE * days:
        text = (
            f"on {len(odd)} of {days} days the measure was far from what the same loads had on the others: it "
            f"depends on "
            "more than the load"
        )
        return _unknown(text, limit, now, _evidence(all_seen, odd, found, limit))
    if why := _no_evidence(seen, evidence, found, limit):
        return _unknown(why, limit, now, evidence)
    assert found.holds_to is not None
    holds_to = _rounded_down(found.holds_to)
    if found.passed_at is None:
        reason = _at_least(seen, found, limit, holds_to, evidence)
        setting = SettingNow.UNKNOWN if now is None else (
            SettingNow.HOLDS if now <= found.holds_to else SettingNow.NOT_SHOWN)  # fmt: skip
        return CapacityProposal(Standing.AT_LEAST, reason, limit, now, setting, holds_to, evidence=evidence)
    reason = (
        f"was {limit} or less up to {load_text(holds_to)} per replica in 95 % of the steps (95 % confidence), from "
        f"{load_text(found.passed_at)} on it was not"
    )
    estimate = min(max(found.estimate, holds_to), found.passed_at)
    return CapacityProposal(
        Standing.MEASURED, reason, limit, now, _setting(now, found.holds_to, found.passed_at), holds_to, estimate,
        found.passed_at, evidence,
    )  # fmt: skip


def _unknown(why: str, limit: Limit, now: float | None, evidence: Evidence | None) -> CapacityProposal:
    return CapacityProposal(Standing.UNKNOWN, why, limit, now, SettingNow.UNKNOWN, evidence=evidence)


def _setting(now: float | None, holds_to: float, passed_at: float) -> SettingNow:
    if now is None:
        return SettingNow.UNKNOWN
    if now <= holds_to:
        return SettingNow.HOLDS
    return SettingNow.TOO_HIGH if now > passed_at else SettingNow.NOT_SHOWN


def _no_evidence(seen: Observations, evidence: Evidence, found: Bounds, limit: Limit) -> str:
    """Why the observations prove nothing; empty where they do."""
    if found.tested < found.run:
        return (
            f"{found.tested:,} observations above the lowest quarter of the loads, and one test takes {found.run:,} "
            f"(those of one day resemble each other: {found.design_effect:.1f} are worth one)"
        )
    if found.low_passed:
        lowest = float(np.quantile(seen.loads, 0.25))
        return (
            f"the {limit.measure} is over {limit} already at the lowest loads, around {load_text(lowest)} per replica: "
            "one serves less than was ever seen, or something else than the load is slow"
        )
    if found.passed_at is None and evidence.correlation < LEAST_CORRELATION:
        return (
            f"the {limit.measure} does not rise with the load per replica (rank correlation "
            f"{evidence.correlation:.2f}, "
            f"at least {LEAST_CORRELATION:g} is needed): is it that of these replicas, and in the same time zone?"
        )
    if found.holds_to is None:
        return (
            f"not enough of the {found.run:,} observations above the lowest quarter of the loads stay under {limit}, "
            f"nor "
            "enough of the highest over it: the two cannot be told apart"
        )
    return ""


def _at_least(seen: Observations, found: Bounds, limit: Limit, holds_to: float, evidence: Evidence) -> str:
    text = (
        f"was {limit} or less up to {load_text(holds_to)} per replica in 95 % of the steps (95 % confidence)"
    )
    beyond = int((seen.loads > holds_to).sum())
    if evidence.highest_measure < _OTHER_UNIT * limit.value:
        text += f"; the highest is {evidence.highest_measure:.3g} {limit.unit}: is it in another unit?"
    if evidence.over_limit == 0:
        return (
            f"{text}, and {limit} was never passed; how far beyond {load_text(evidence.highest_load)} it holds, nobody "
            "knows"
        )
    return (
        f"{text}; the {beyond:,} observations above it ({found.run:,} make one test) are too few or too mixed to say "
        "where the limit is passed"
    )


def _evidence(seen: Observations, odd: tuple[OddDay, ...], found: Bounds, limit: Limit) -> Evidence:
    top = seen.loads >= np.quantile(seen.loads, 1 - OVER_SHARE)
    return Evidence(
        observations=len(seen.loads),
        days=seen.day_count,
        replicas=seen.replicas,
        highest_load=float(seen.loads.max()),
        upper_at_highest=float(np.quantile(seen.measures[top], 1 - OVER_SHARE)),
        highest_measure=float(seen.measures.max()),
        over_limit=int((seen.measures > limit.value).sum()),
        correlation=rank_correlation(seen.loads, seen.measures),
        odd=odd,
        notes=seen.notes,
        bounds=found,
    )


def _rounded_down(capacity: float) -> float:
    """Three digits: more would claim what a few weeks cannot tell."""
    if capacity <= 0:
        return capacity
    unit = 10.0 ** (math.floor(math.log10(capacity)) - _DIGITS + 1)
    return float(f"{math.floor(capacity / unit + 1e-9) * unit:.12g}")
