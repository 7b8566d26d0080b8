"""What the load of now asks for by itself, whatever a forecast says: what is there, and what a burst will have reached.

Where nothing can be forecast (`degraded`), this is all there is: reactive scaling at the stated capacity. So it costs
what the cheapest reactive scaling costs, and never more replicas than the peak takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from peaker.domain.forecasting import Forecast, Standing

# A young cluster keeps room; it lasts three days at most.
REACTIVE_ONLY_HEADROOM = 0.7
# A burst is followed for a lead time, but never to more than this multiple of the load of now.
MOST_BURST_GROWTH = 2.0
_SHORTEST_PATIENCE_SECONDS = 3600.0


def load_text(load: float) -> str:
    """A load with as many digits as a person reads."""
    return f"{load:,.0f}" if load >= 1000 else f"{load:.4g}"


@dataclass(frozen=True)
class Reaction:
    """The load to serve, and the rule that says so."""

    load: float
    text: str
    is_burst: bool = False


def react(load_now: float, forecast: Forecast, lead_seconds: float) -> Reaction:
    """The load of now; in a burst what it will have reached in a lead time, at the growth that was measured.

    A burst is a rise steeper than any of the last four weeks, so the shape of the days says nothing of it, and what is
    there now is short by a lead time's growth when a replica that is begun now serves.
    """
    if forecast.standing is Standing.REACTIVE_ONLY:
        room = REACTIVE_ONLY_HEADROOM
        return Reaction(load_now / room, f"the load of {load_text(load_now)} now at {room:.0%} headroom")
    now = Reaction(load_now, f"the load of {load_text(load_now)} now")
    rise = forecast.rise
    if forecast.standing is Standing.DEGRADED or rise is None or not rise.is_burst:
        return now
    reached = min(load_now + rise.per_second * lead_seconds, MOST_BURST_GROWTH * load_now)
    by = load_text(60 * rise.per_second)
    text = (
        f"the burst: {load_text(load_now)} now rises by {by} a minute, faster than in four weeks, "
        f"to {load_text(reached)} in {lead_seconds / 60:.0f} min"
    )
    return Reaction(reached, text, is_burst=True)


def patient_checks(lead_seconds: float, period_seconds: float, least: int) -> int:
    """Low checks in a row that reactive scaling waits for: a lead time of low load, an hour at least."""
    patience = max(_SHORTEST_PATIENCE_SECONDS, lead_seconds)
    return max(least, math.ceil(patience / period_seconds - 1e-9) + 1)
