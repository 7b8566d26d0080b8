"""The lead time as a function of the time that the volumes take to be warm. Pure.

Everything but the hydration is as `predict_lead_time` says, learned parts included; the catch-up grows with the
hydration, because the source goes on writing meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from peaker.domain.planning.lead_time import Component, LeadTime
from peaker_contract.steps import Part


@dataclass(frozen=True)
class LeadTimeFrame:
    """The lead time around the hydration. Seconds; `spread_squared` in seconds squared.

    `catch_up_seconds` and `catch_up_spread` hold at a hydration of `reference_seconds`; each further second of
    hydration adds `catch_up_per_second`. `snapshot_seconds` is what a method without snapshots saves.
    """

    rest_seconds: float
    spread_squared: float
    reference_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    catch_up_spread: float = 0.0
    catch_up_per_second: float = 0.0
    snapshot_seconds: float = 0.0

    def catch_up(self, hydration_seconds: float) -> float:
        """Seconds to replay what was written meanwhile."""
        further = (hydration_seconds - self.reference_seconds) * self.catch_up_per_second
        return max(0.0, self.catch_up_seconds + further)

    def p50(self, hydration_seconds: float) -> float:
        """The median of the whole."""
        return self.rest_seconds + hydration_seconds + self.catch_up(hydration_seconds)

    def p90(self, hydration_p50: float, hydration_p90: float) -> float:
        """As `predict_lead_time`: the medians and the root of the sum of the squared spreads."""
        further = (hydration_p50 - self.reference_seconds) * self.catch_up_per_second
        spreads = self.spread_squared + (hydration_p90 - hydration_p50) ** 2
        spreads += max(0.0, self.catch_up_spread + further) ** 2
        return self.p50(hydration_p50) + math.sqrt(spreads)


def frame_of(lead: LeadTime, catch_up_per_second: float) -> LeadTimeFrame:
    """The frame of a prediction; at the hydration that it predicts, the frame gives its figures."""
    hydration, catch_up = lead.component(Part.HYDRATION), lead.component(Part.CATCH_UP)
    rest = lead.p50_seconds - hydration.p50_seconds - catch_up.p50_seconds
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
    )


def _squared(parts: Collection[Component]) -> float:
    return sum((part.p90_seconds - part.p50_seconds) ** 2 for part in parts)
