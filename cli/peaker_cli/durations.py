"""Durations, points in time and dollars for a person."""

from __future__ import annotations

from datetime import datetime, timedelta

import typer
from peaker.domain.instants import from_iso, in_words, to_iso

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


def clock(at: datetime | str | None) -> str:
    """`21 Nov 09:14 UTC`, the form of every time that a command shows; `?` where it is not known."""
    if at is None:
        return "?"
    return in_words(from_iso(at) if isinstance(at, str) else at)


def as_usd(amount: float | None, digits: int = 2, otherwise: str = "unknown") -> str:
    """`$1,234.50`, or unknown."""
    return otherwise if amount is None else f"${amount:,.{digits}f}"


def instant_option(text: str, option: str) -> str:
    """The time that was typed, as ISO 8601 in UTC. Raises BadParameter for what is none."""
    try:
        return to_iso(from_iso(text))
    except ValueError as error:
        raise typer.BadParameter(
            f"{text[:60]!r} is not a time with its zone, such as 2026-11-27T06:00:00Z", param_hint=option
        ) from error
