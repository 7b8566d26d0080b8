"""Which method a run takes: the cheapest that is in time with a margin, or else the quickest.

Only methods that a run can carry out are chosen. The others are estimated beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel, ConfigDict

from peaker.domain.instants import to_iso
from peaker.domain.planning.methods import snapshot_reading
from peaker.domain.planning.methods.rates import MARGIN, in_time, rank
from peaker.domain.planning.methods.situation import (
    MethodEstimate,
    MethodName,
    Situation,
    estimate,
)
from peaker.domain.reading import Known, Unknown


class MethodChoice(BaseModel):
    """The method that a run takes now, why, and the figures of all.

    `chosen` is None when a run can carry out none. `in_time` is None without a deadline. `by_then` says what can be
    ready where nothing makes the deadline.
    """

    model_config = ConfigDict(frozen=True)

    chosen: MethodName | None
    reason: str
    ready_by: datetime | None = None
    margin_share: float = MARGIN
    in_time: bool | None = None
    by_then: str | None = None
    methods: tuple[MethodEstimate, ...] = ()

    def estimate(self, name: MethodName) -> MethodEstimate:
        """The figures of one method."""
        return next(one for one in self.methods if one.name is name)

    @property
    def taken(self) -> MethodEstimate | None:
        """The figures of the chosen one."""
        return None if self.chosen is None else self.estimate(self.chosen)


def choose(situation: Situation) -> MethodChoice:
    """The choice and its table; methods in the order of MethodName."""
    methods = tuple(ESTIMATED[name](situation) for name in MethodName)
    usable = [one for one in methods if one.carried_out and one.possible]
    left = situation.seconds_left
    if not usable:
        return MethodChoice(
            chosen=None,
            reason="no method that a run can carry out is possible",
            ready_by=situation.ready_by,
            methods=methods,
        )
    best = min(usable, key=lambda one: _rank(one, left))
    makes_it = None if left is None else in_time(best.p90_seconds or 0.0, left)
    return MethodChoice(
        chosen=best.name,
        reason=_reason(best, usable, left),
        ready_by=situation.ready_by,
        in_time=makes_it,
        by_then=_by_then(situation, methods, usable) if makes_it is False else None,
        methods=methods,
    )


def by_settings(situation: Situation, returned: str | None) -> MethodChoice:
    """Without a deadline a run takes what the settings say, or the parked replica that it found to be back sooner."""
    shown = {one.name: one for one in (ESTIMATED[name](situation) for name in MethodName)}
    anew = build_by_settings(situation)
    shown[anew.name] = anew
    chosen = anew.name if returned is None else MethodName.RETURN
    why = f"{returned} is back sooner than a new one" if returned is not None else "as the settings say"
    return MethodChoice(
        chosen=chosen,
        reason=f"{chosen}, {why}; no deadline was given",
        methods=tuple(shown.values()),
    )


def build_by_settings(situation: Situation) -> MethodEstimate:
    """What building one takes as the settings say, whatever else is possible."""
    if situation.rate_ceiling_mib_per_s is not None and not situation.local_zones:
        return snapshot_reading.at_the_settings_rate(situation)
    hot = situation.serve_when == "hot"
    return snapshot_reading.hot_first(situation) if hot else snapshot_reading.used_blocks(situation)


def _rank(one: MethodEstimate, seconds_left: float | None) -> tuple[bool, float, float]:
    usd = Unknown("no price is known") if one.usd is None else Known(one.usd)
    return rank(one.p90_seconds or 0.0, usd, seconds_left)


def _reason(best: MethodEstimate, usable: Sequence[MethodEstimate], left: float | None) -> str:
    price = "an unknown price" if best.usd is None else f"${best.usd:.2f}"
    shown = f"{best.name} for {price}, ready in {_minutes(best.p90_seconds)} in 9 of 10 cases"
    if left is None:
        return f"{shown}: the cheapest of {len(usable)} that a run can carry out; no deadline was given"
    fit = [one for one in usable if in_time(one.p90_seconds or 0.0, left)]
    if not fit:
        return f"{shown}: the quickest; none is ready within {_minutes(left)} with {MARGIN:.0%} to spare"
    return f"{shown}: the cheapest of {len(fit)} that are ready within {_minutes(left)} with {MARGIN:.0%} to spare"


def _by_then(
    situation: Situation, methods: Sequence[MethodEstimate], usable: Sequence[MethodEstimate]
) -> str:
    """What can be ready: the quickest of a run, what other settings would give, what is not carried out."""
    quickest = min(usable, key=lambda one: one.p90_seconds or 0.0)
    told = [f"{quickest.name} is ready at {_at(situation, quickest.p90_seconds)}"]
    left = situation.seconds_left
    for one in methods:
        if one.p90_seconds is None or not in_time(one.p90_seconds, left):
            continue
        if one.why_not is not None:
            told.append(f"{one.name} would be in time: {one.why_not}")
        elif not one.carried_out:
            told.append(f"{one.name} would be in time; no run carries it out")
    return "; ".join(told)


def _at(situation: Situation, seconds: float | None) -> str:
    if situation.now is None or seconds is None:
        return "an unknown time"
    return to_iso(situation.now + timedelta(seconds=seconds))


def _minutes(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else f"{seconds / 60:.0f} min"


def _returned(situation: Situation) -> MethodEstimate:
    """The parked replica whose return is the best: another one may be back sooner, or cost less until then."""
    if not situation.parked:
        return estimate(MethodName.RETURN, why_not=situation.why_none_parked)
    left = situation.seconds_left
    best = min(
        situation.parked, key=lambda one: (rank(one.return_p90_seconds, one.usd, left), one.instance_id)
    )
    return estimate(
        MethodName.RETURN,
        p50=best.return_p50_seconds,
        p90=best.return_p90_seconds,
        usd=best.usd,
        replica=best.instance_id,
        basis=f"{best.instance_id} starts and catches up; its volumes are warm",
        on_donor="none",
        on_source="sends the log since it stopped",
    )


ESTIMATED: dict[MethodName, Callable[[Situation], MethodEstimate]] = {
    MethodName.FULL_READ: snapshot_reading.full_read,
    MethodName.USED_BLOCKS: snapshot_reading.used_blocks,
    MethodName.HOT_FIRST: snapshot_reading.hot_first,
    MethodName.PROVISIONED_RATE: snapshot_reading.provisioned_rate,
    MethodName.RETURN: _returned,
}
