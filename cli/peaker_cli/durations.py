"""Durations for a person."""

from __future__ import annotations

from datetime import timedelta

# A hundred years; what is longer is no duration of anything here.
_LONGEST_SECONDS = 3.2e9


def duration(seconds: float | None) -> str:
    """`3 h 12 min`, `4 min 05 s` or `7.2 s`; a dash for an unknown."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds > _LONGEST_SECONDS:
        return f"{seconds:.2g} s"
    whole = timedelta(seconds=round(seconds))
    hours, minutes = divmod(whole // timedelta(minutes=1), 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {round(seconds) % 60:02d} s"
