"""Points in time: always aware and in UTC, written as ISO 8601 to the second or finer."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_LONGEST_TEXT = 64


def require_utc(instant: datetime) -> datetime:
    """The instant in UTC. Raises ValueError for a naive one, because its zone would be a guess."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone; pass an aware datetime")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{instant.isoformat()} is in no year that UTC has") from error


def to_iso(instant: datetime) -> str:
    """ISO 8601 with milliseconds and a Z; sorts as text in order of time."""
    return require_utc(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_words(instant: datetime) -> str:
    """`21 Nov 09:14 UTC`, the form of every time that a person reads."""
    return f"{require_utc(instant):%d %b %H:%M} UTC"


def from_iso(text: str) -> datetime:
    """The inverse of to_iso; accepts any ISO 8601 text that carries a zone."""
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r}... is no instant")
    return _instant(text)


# A run's rows are read again at each of its steps, and each row has two or three instants.
@lru_cache(maxsize=4096)
def _instant(text: str) -> datetime:
    return require_utc(datetime.fromisoformat(text))


def _read(given: Any) -> datetime:
    return given if isinstance(given, datetime) else from_iso(given)


# A field of a stored document.
Instant = Annotated[datetime, BeforeValidator(_read), PlainSerializer(to_iso)]


def seconds_between(start: datetime, end: datetime) -> float:
    """Seconds from start to end; negative when end is earlier."""
    return (require_utc(end) - require_utc(start)).total_seconds()
