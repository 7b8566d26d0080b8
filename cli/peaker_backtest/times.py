"""Times of a past load as epoch seconds: ISO 8601, or epoch seconds or milliseconds; all times of a file alike."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import Row

# A number of these years is in the range of one unit only.
_FIRST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
_LAST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_NUMBER = re.compile(r"\d{9,13}(\.\d*)?", re.ASCII)
_UNITS = (("epoch seconds", 1), ("epoch milliseconds", 1000))
_REMEDY = "write ISO 8601 (2026-11-21T01:40:00Z) or epoch seconds, or pass --time-column"


def time_zone(name: str) -> tzinfo:
    """Returns the zone of an IANA name, or of an offset such as +02:00. Raises BadInput."""
    try:
        if name.upper() in {"UTC", "Z"}:
            return UTC
        if re.fullmatch(r"[+-]\d{2}:?\d{2}", name, re.ASCII):
            return datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo or UTC
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise BadInput(
            f"--time-zone is {shown(name)}; give a name such as Europe/Berlin or an offset such as +02:00"
        ) from None


def is_time(text: str) -> bool:
    """Says whether the text alone can be a time."""
    try:
        return bool(_written(text))
    except ValueError:
        return False


def read_times(source: str, rows: Sequence[Row], zone_name: str | None) -> tuple[list[float | None], str]:
    """Returns the epoch seconds of each row, and in words how times were read.

    A row without a load in an hour that the clocks skip has no time. Raises BadInput.
    """
    zone = time_zone(zone_name or "UTC")
    moments: list[float | datetime] = []
    kind = ""
    for row in rows:
        try:
            its_kind, moment = _written(row.time)
        except ValueError:
            raise BadInput(f"{source}, {row.place}: {shown(row.time)!r} is no time; {_REMEDY}") from None
        kind = kind or its_kind
        if its_kind != kind:
            raise BadInput(
                f"{source}, {row.place}: {shown(row.time)} among {kind} (as in the first row); write all times alike"
            )
        moments.append(moment)
    local = [moment for moment in moments if isinstance(moment, datetime)]
    seconds = _instants(source, rows, local, zone) if local else [*moments]
    for row, at in zip(rows, seconds, strict=True):
        if isinstance(at, float) and not _FIRST <= at < _LAST:
            raise BadInput(
                f"{source}, {row.place}: {shown(row.time)} is outside 1990 to 2099: correct the time"
            )
    if local:
        kind += f" taken as {zone_name or 'UTC; --time-zone sets another'}"
    return [at if isinstance(at, float) else None for at in seconds], kind


def _written(text: str) -> tuple[str, float | datetime]:
    """Returns the kind of a time, and its epoch seconds or, without a zone, its wall clock. Raises ValueError."""
    if _NUMBER.fullmatch(text):
        for kind, per_second in _UNITS:
            if _FIRST <= float(text) / per_second < _LAST:
                return kind, float(text) / per_second
    moment = datetime.fromisoformat(text)
    return (
        ("times without a zone", moment)
        if moment.tzinfo is None
        else ("times with a zone", moment.timestamp())
    )


def _instants(
    source: str, rows: Sequence[Row], local: Sequence[datetime], zone: tzinfo
) -> list[float | None]:
    """Returns the epoch seconds of a wall clock's times, which run forward or, newest first, backward.

    Of an hour that is there twice, a time is the second one where the first would go back.
    """
    falls = sum(after < before for before, after in pairwise(local))
    order = range(len(local)) if 2 * falls < len(local) else range(len(local) - 1, -1, -1)
    seconds: list[float | None] = [None] * len(local)
    newest = -math.inf
    for index in order:
        first = local[index].replace(tzinfo=zone)
        instants = first.timestamp(), first.replace(fold=1).timestamp()
        if instants[0] > instants[1]:
            if rows[index].load in (None, ""):
                continue
            raise BadInput(
                f"{source}, {rows[index].place}: {shown(rows[index].time)} is not there in {zone}, whose clocks skip "
                "it: correct the time, or pass the --time-zone that the file was written in"
            )
        newest = instants[0] if instants[0] > newest else instants[1]
        seconds[index] = newest
    return seconds
