"""Which settings would have served the past weeks at the least cost: a proposal for a person, never a change.

Of the settings that were tried on the same forecasts, those count that were short no longer than is accepted. The
cheapest of them is proposed when it was cheaper by enough to be no accident, in two weeks at least, and dearer in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

# One week may be any week.
LEAST_WEEKS = 2
# A gain below this share of the cost is within what two replays of a load differ by.
LEAST_GAIN = 0.02
# The values of the setting `forecast.rule`.
FORECAST, REACTIVE = "forecast", "reactive"


class Advice(StrEnum):
    CHANGE = "change"
    STAY = "stay"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Choice:
    """The settings of `forecast` that trade cost against shortage."""

    quantile: float
    headroom: float
    rule: str = FORECAST

    def __str__(self) -> str:
        if self.rule == REACTIVE:
            return f"rule reactive, headroom {self.headroom:g}"
        return f"quantile {self.quantile:g}, headroom {self.headroom:g}"


@dataclass(frozen=True)
class Week:
    """Replica-hours paid for and minutes short in seven days."""

    replica_hours: float
    short_minutes: float


@dataclass(frozen=True)
class Trial:
    """What one choice came to in each whole week, the oldest first."""

    choice: Choice
    weeks: tuple[Week, ...]

    @property
    def replica_hours_a_week(self) -> float:
        return sum(week.replica_hours for week in self.weeks) / len(self.weeks)

    @property
    def short_minutes_a_week(self) -> float:
        return sum(week.short_minutes for week in self.weeks) / len(self.weeks)


@dataclass(frozen=True)
class SettingsProposal:
    """What to do about the settings, and the figures behind it, per week.

    proposed is None unless the advice is to change. saved_replica_hours is negative where less shortage costs more;
    saved_usd is None where the price of a replica-hour is not known.
    """

    advice: Advice
    reason: str
    now: Trial
    proposed: Trial | None
    tried: int
    accepted_short_minutes: float
    saved_replica_hours: float
    saved_usd: float | None


def propose_settings(
    now: Trial,
    others: Sequence[Trial],
    accepted_short_minutes: float | None = None,
    replica_hour_usd: float | None = None,
) -> SettingsProposal:
    """Returns the cheapest of the trials that is short no longer than accepted, or a reason to stay.

    accepted_short_minutes: a week, on average over the weeks; None accepts what the settings of now were short.
    """
    tried = 1 + len(others)
    if len(now.weeks) < LEAST_WEEKS:
        compared = "1 whole week was compared" if len(now.weeks) == 1 else "no whole week was compared"
        return SettingsProposal(
            Advice.UNKNOWN,
            f"{compared}, and {LEAST_WEEKS} are needed: one week may be any week",
            now, None, tried, accepted_short_minutes or 0.0, 0.0, None,
        )  # fmt: skip
    accepted = now.short_minutes_a_week if accepted_short_minutes is None else accepted_short_minutes
    allowed = [one for one in others if one.short_minutes_a_week <= accepted + 1e-9]
    fits = now.short_minutes_a_week <= accepted + 1e-9
    if fits:
        allowed = [one for one in allowed if _is_steadily_cheaper(one, now)]
    best = min(allowed, key=lambda one: (one.replica_hours_a_week, one.short_minutes_a_week), default=None)
    saved = 0.0 if best is None else now.replica_hours_a_week - best.replica_hours_a_week
    advice, reason = _advice(now, best, fits, saved, accepted, [now, *others])
    if advice is not Advice.CHANGE:
        best, saved = None, 0.0
    usd = None if replica_hour_usd is None else saved * replica_hour_usd
    return SettingsProposal(advice, reason, now, best, tried, accepted, saved, usd)


def best_of_rules(trials: Sequence[Trial], accepted_short_minutes: float) -> list[Trial]:
    """Returns the cheapest trial of each rule that was short no longer than accepted, the cheapest rule first."""
    allowed = [one for one in trials if one.short_minutes_a_week <= accepted_short_minutes + 1e-9]
    best: dict[str, Trial] = {}
    for one in sorted(allowed, key=lambda each: (each.replica_hours_a_week, each.short_minutes_a_week)):
        best.setdefault(one.choice.rule, one)
    return list(best.values())


def _is_steadily_cheaper(one: Trial, now: Trial) -> bool:
    """No week is dearer, and not one week alone is cheaper: what happened once is no rule."""
    saved = [
        theirs.replica_hours - mine.replica_hours for mine, theirs in zip(one.weeks, now.weeks, strict=True)
    ]
    return min(saved) >= 0 and sum(hours > 0 for hours in saved) >= LEAST_WEEKS


def _advice(
    now: Trial, best: Trial | None, fits: bool, saved: float, accepted: float, every: Sequence[Trial]
) -> tuple[Advice, str]:
    if best is None and not fits:
        least = min(every, key=lambda one: (one.short_minutes_a_week, one.replica_hours_a_week))
        return Advice.STAY, (
            f"none of {len(every)} settings was short for {accepted:,.0f} min a week or less; the least was "
            f"{least.short_minutes_a_week:,.0f} min with {least.choice}"
        )
    if best is None or (fits and saved < LEAST_GAIN * now.replica_hours_a_week):
        return Advice.STAY, (
            f"of {len(every)} settings none was short for {accepted:,.0f} min a week or less and cheaper by "
            f"{LEAST_GAIN:.0%}, in {LEAST_WEEKS} of {len(now.weeks)} weeks at least and dearer in none"
        )
    short = f"{best.short_minutes_a_week:,.0f} min short a week (now {now.short_minutes_a_week:,.0f})"
    if not fits:
        return Advice.CHANGE, (
            f"the settings of now were short for longer than the {accepted:,.0f} min a week that are accepted; the "
            f"cheapest that were not: {short}"
        )
    return Advice.CHANGE, (
        f"the cheapest of {len(every)} settings that were short for {accepted:,.0f} min a week or less, and dearer in "
        f"none of {len(now.weeks)} weeks: {short}"
    )


def frontier(trials: Sequence[Trial]) -> list[Trial]:
    """Returns the trials that no other beats at both cost and shortage, the cheapest first."""
    found: list[Trial] = []
    for one in sorted(trials, key=lambda each: (each.replica_hours_a_week, each.short_minutes_a_week)):
        if not found or one.short_minutes_a_week < found[-1].short_minutes_a_week:
            found.append(one)
    return found
