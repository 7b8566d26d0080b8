"""Says what the load of now asks for by itself, whatever a forecast says.

Where nothing can be forecast (`degraded`), this is all there is: reactive scaling at the stated capacity. So it costs
what the cheapest reactive scaling costs, and never more replicas than the peak takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from peaker.domain.forecasting import Forecast, Standing

# A young cluster keeps room; it lasts three days at most.
REACTIVE_ONLY_HEADROOM = 0.7
_SHORTEST_PATIENCE_SECONDS = 3600.0


def load_text(load: float) -> str:
    """A load with as many digits as a person reads."""
    return f"{load:,.0f}" if load >= 1000 else f"{load:.4g}"


@dataclass(frozen=True)
class Reaction:
    """The load to serve, and the rule that says so."""

    load: float
    text: str


def react(load_now: float, forecast: Forecast) -> Reaction:
    """The load of now; with room where the history is too short for a forecast."""
    if forecast.standing is Standing.REACTIVE_ONLY:
        room = REACTIVE_ONLY_HEADROOM
        return Reaction(load_now / room, f"the load of {load_text(load_now)} now at {room:.0%} headroom")
    return Reaction(load_now, f"the load of {load_text(load_now)} now")


def patient_checks(lead_seconds: float, period_seconds: float, least: int) -> int:
    """Low checks in a row that reactive scaling waits for: a lead time of low load, an hour at least."""
    patience = max(_SHORTEST_PATIENCE_SECONDS, lead_seconds)
    return max(least, math.ceil(patience / period_seconds - 1e-9) + 1)
