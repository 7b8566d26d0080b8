"""What past prewarms say of the time that these bytes take at this rate. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PastReading:
    """One prewarm: bytes in seconds. `paid_mib_per_s`: the initialization rate of each of its volumes, 0 of none, None
    where nobody says or they differ.
    """

    data_bytes: float
    seconds: float
    paid_mib_per_s: float | None = None


def rate_of_all(rates: Sequence[float | None]) -> float | None:
    """The one rate that all volumes have, 0 where none is paid for; None where they differ, and of no volumes."""
    found = {rate or 0.0 for rate in rates}
    return found.pop() if len(found) == 1 else None


def past_readings(
    sizes: Sequence[float], seconds: Sequence[float], rates: Sequence[float | None]
) -> list[PastReading]:
    """The newest prewarms of which bytes and seconds are known; older ones may have no rate."""
    runs = min(len(seconds), len(sizes))
    known = [None] * max(0, len(sizes) - len(rates)) + list(rates)
    last = (list(one)[len(one) - runs :] for one in (sizes, seconds, known))
    return [PastReading(*one) for one in zip(*last, strict=True)]


def usable(past: Sequence[PastReading], paid_mib_per_s: float | None) -> list[PastReading]:
    """Those that say something of this rate: one at a paid rate says nothing of the default rate, nor the other way
    round. Where the rate is not known, on either side, it counts.
    """
    return [
        one
        for one in past
        if one.data_bytes > 0
        and one.seconds > 0
        and math.isfinite(one.seconds)
        and (
            one.paid_mib_per_s is None
            or paid_mib_per_s is None
            or (one.paid_mib_per_s > 0) == (paid_mib_per_s > 0)
        )
    ]


def scaled_readings(
    past: Sequence[PastReading], total_bytes: float, paid_mib_per_s: float | None
) -> list[float]:
    """Seconds that each usable one would have taken for these bytes at that rate; at an unknown rate as it was."""
    return [
        total_bytes
        * one.seconds
        / one.data_bytes
        * (one.paid_mib_per_s / paid_mib_per_s if one.paid_mib_per_s and paid_mib_per_s else 1.0)
        for one in usable(past, paid_mib_per_s)
    ]
