"""The disposal of a replica that leaves the endpoint, with the figures of parking and of rebuilding. Pure."""

from __future__ import annotations

from typing import Literal

from peaker.domain.decoding import Frozen
from peaker.domain.runs.ledger import RunPart

ParkPolicy = Literal["auto", "never", "always"]


class ParkingFigures(Frozen):
    """Seconds to service and USD of parking and of rebuilding; None where no price is known.

    `return_seconds` is for a replica that has just stopped; each hour of standing adds `catch_up_per_hour` seconds.
    """

    return_seconds: float
    build_seconds: float
    catch_up_per_hour: float
    parked_hourly_usd: float | None
    serving_hourly_usd: float | None
    rebuild_usd: float | None

    @property
    def break_even_hours(self) -> float | None:
        """Hours after which standing has cost as much as rebuilding."""
        if self.rebuild_usd is None or self.parked_hourly_usd is None or self.parked_hourly_usd <= 0:
            return None
        return self.rebuild_usd / self.parked_hourly_usd

    @property
    def faster_for_hours(self) -> float | None:
        """Hours after which catching up takes as long as rebuilding; None when it never does."""
        if self.catch_up_per_hour <= 0:
            return None
        return max(0.0, (self.build_seconds - self.return_seconds) / self.catch_up_per_hour)


class Disposal(RunPart):
    """The decision to park or retire a replica that leaves the endpoint, its reason, and the figures."""

    ledger_name = "disposal"

    action: Literal["park", "retire"]
    policy: ParkPolicy
    reason: str
    figures: ParkingFigures
