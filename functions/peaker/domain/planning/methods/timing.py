"""The lead time as a function of the time that the volumes take to be warm. Pure.

Everything but the hydration is as `predict_lead_time` says, learned parts included. The catch-up grows with what is
read before the database starts, because the source goes on writing meanwhile, and passes beside what is read later.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from peaker.domain.planning.lead_time import Component, LeadTime
from peaker.domain.planning.learning.overlap import Overlap
from peaker_contract.steps import Part


@dataclass(frozen=True)
class LeadTimeFrame:
    """The lead time around the hydration. Seconds; `spread_squared` in seconds squared.

    `catch_up_seconds` and `catch_up_spread` are what is left of the catch-up after a hydration of `reference_seconds`;
    `whole_catch_up_seconds` is all of it, which each further second before the database starts makes longer by
    `catch_up_per_second`. `snapshot_seconds` is what a method without snapshots saves.
    """

    rest_seconds: float
    spread_squared: float
    reference_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    catch_up_spread: float = 0.0
    catch_up_per_second: float = 0.0
    snapshot_seconds: float = 0.0
    whole_catch_up_seconds: float | None = None
    overlap: Overlap = field(default_factory=Overlap)

    def catch_up(self, hydration_seconds: float) -> float:
        """Seconds to replay what was written meanwhile, as far as that is waited for; what past runs took counts."""
        further = self._left(hydration_seconds, 1.0) - self._left(self.reference_seconds, 1.0)
        return max(0.0, self.catch_up_seconds + further)

    def catch_up_p90(self, hydration_seconds: float) -> float:
        """Its p90, where the volumes take as long as that."""
        further = self._left_spread(hydration_seconds) - self._left_spread(self.reference_seconds)
        return self.catch_up(hydration_seconds) + max(0.0, self.catch_up_spread + further)

    def p50(self, hydration_seconds: float) -> float:
        """The median of the whole."""
        beside = self.overlap.beside(hydration_seconds)
        return self.rest_seconds + hydration_seconds - beside + self.catch_up(hydration_seconds)

    def p90(self, hydration_p50: float, hydration_p90: float) -> float:
        """As `predict_lead_time`: the medians and the root of the sum of the squared spreads."""
        spreads = self.spread_squared + (hydration_p90 - hydration_p50) ** 2
        spreads += (self.catch_up_p90(hydration_p50) - self.catch_up(hydration_p50)) ** 2
        return self.p50(hydration_p50) + math.sqrt(spreads)

    def before_database(self) -> LeadTimeFrame:
        """The same where no database may start before all is there: what is copied has no hot blocks first."""
        share, reference = self.overlap.hot_share, self.reference_seconds
        whole = self._whole() + (1 - share) * reference * self.catch_up_per_second
        return self._with_catch_up_of(
            replace(self, whole_catch_up_seconds=whole, overlap=replace(self.overlap, hot_share=1.0))
        )

    def _with_catch_up_of(self, late: LeadTimeFrame) -> LeadTimeFrame:
        """`late` with what is left of its catch-up; what past runs took of this one's counts."""
        reference = self.reference_seconds
        further = late._left(reference, 1.0) - self._left(reference, 1.0)
        spread = late._left_spread(reference) - self._left_spread(reference)
        return replace(
            late,
            catch_up_seconds=max(0.0, self.catch_up_seconds + further),
            catch_up_spread=max(0.0, self.catch_up_spread + spread),
        )

    def _whole(self) -> float:
        return self.catch_up_seconds if self.whole_catch_up_seconds is None else self.whole_catch_up_seconds

    def _left(self, hydration_seconds: float, times: float) -> float:
        """What is left of a catch-up that takes so many times as long as predicted."""
        later = (hydration_seconds - self.reference_seconds) * self.overlap.hot_share
        return self.overlap.left(
            times * (self._whole() + later * self.catch_up_per_second), hydration_seconds
        )

    def _left_spread(self, hydration_seconds: float) -> float:
        return self._left(hydration_seconds, 2.0) - self._left(hydration_seconds, 1.0)


def frame_of(lead: LeadTime, catch_up_per_second: float) -> LeadTimeFrame:
    """The frame of a prediction; at the hydration that it predicts, the frame gives its figures."""
    hydration, catch_up = lead.component(Part.HYDRATION), lead.component(Part.CATCH_UP)
    beside = lead.overlap.beside(hydration.p50_seconds)
    rest = lead.p50_seconds - hydration.p50_seconds - catch_up.p50_seconds + beside
    squared = (lead.p90_seconds - lead.p50_seconds) ** 2 - _squared([hydration, catch_up])
    snapshot = lead.component(Part.SNAPSHOT).p50_seconds
    instance = lead.component(Part.INSTANCE).p50_seconds
    return LeadTimeFrame(
        rest_seconds=max(0.0, rest),
        spread_squared=max(0.0, squared),
        reference_seconds=hydration.p50_seconds,
        catch_up_seconds=catch_up.p50_seconds,
        catch_up_spread=catch_up.p90_seconds - catch_up.p50_seconds,
        catch_up_per_second=catch_up_per_second,
        # The instance starts beside the snapshot.
        snapshot_seconds=max(0.0, snapshot - instance),
        whole_catch_up_seconds=lead.behind_seconds * catch_up_per_second,
        overlap=lead.overlap,
    )


def _squared(parts: Collection[Component]) -> float:
    return sum((part.p90_seconds - part.p50_seconds) ** 2 for part in parts)
