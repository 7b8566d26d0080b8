"""A measured value that may be missing. Unknown is a value of its own, never zero (I4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Known:
    """A value and the time it was measured at."""

    value: float
    measured_at: datetime | None = None


@dataclass(frozen=True)
class Unknown:
    """No value, and why there is none."""

    why: str


Reading = Known | Unknown


def describe(reading: Reading, unit: str = "") -> str:
    """The reading as a person reads it: `3.2 s` or `unknown (no data for 20 min)`."""
    if isinstance(reading, Unknown):
        return f"unknown ({reading.why})"
    return f"{reading.value:g} {unit}".rstrip()
