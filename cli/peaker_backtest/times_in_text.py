"""A column of times as people write them, as epoch seconds: ISO 8601, day first, month first, or epoch numbers.

What can be read in two ways is refused, never guessed. A column is of one kind: all with a zone or all without, all
dates or all numbers of one unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.points import CellError

# A number of 1990 to 2099 is in the range of one unit only.
_SECONDS = (631_152_000, 4_102_444_800)
_UNITS = (("s", 1), ("ms", 1_000), ("µs", 1_000_000), ("ns", 1_000_000_000))
_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp][Mm]))?"
)
_ZONE = r"(?:\s*(?P<zone>Z|z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2}))?"
_YEAR_FIRST = re.compile(
    rf"(?P<year>\d{{4}})(?P<by>[-/.])(?P<one>\d{{1,2}})(?P=by)(?P<two>\d{{1,2}})(?:[Tt,\s]\s*{_CLOCK}{_ZONE})?",
    re.ASCII,
)
_YEAR_LAST = re.compile(
    rf"(?P<one>\d{{1,2}})(?P<by>[-/.])(?P<two>\d{{1,2}})(?P=by)(?P<year>\d{{4}})(?:[Tt,\s]\s*{_CLOCK}{_ZONE})?",
    re.ASCII,
)
_COMPACT = re.compile(
    r"(?P<year>(?:19|20)\d{2})(?P<one>\d{2})(?P<two>\d{2})(?:[Tt]?(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?"
    r"(?P<part>)(?P<half>)(?P<zone>Z|[+-]\d{4})?)?",
    re.ASCII,
)
_REMEDY = "write ISO 8601 (2026-11-21T01:40:00Z) or epoch seconds"


@dataclass(frozen=True)
class _Written:
    """One cell: an epoch number with its unit, or a date in the order it was written."""

    unit: str = ""
    seconds: float = 0.0
    year: int = 0
    one: int = 0
    two: int = 0
    day_order: str = ""
    clock: tuple[int, int, int, int] = (0, 0, 0, 0)
    zone: str = ""

    @property
    def kind(self) -> str:
        if self.unit:
            return f"epoch numbers in {self.unit}"
        return "times with a zone" if self.zone else "times without a zone"


@dataclass(frozen=True)
class ReadTimes:
    """Epoch seconds, and how the column was read, in words."""

    seconds: list[float]
    how: str


def looks_like_time(cell: str) -> bool:
    """Whether the cell alone can be a time."""
    return _written(cell.strip()) is not None


def time_zone(name: str) -> tzinfo:
    """The zone of an IANA name, or of an offset such as +02:00. Raises BadInput."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        return _offset(name) if re.fullmatch(r"[+-]\d{2}:?\d{2}", name, re.ASCII) else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            f"--time-zone is {shown(name)}; give a name such as Europe/Berlin or an offset such as +02:00",
            field="--time-zone",
        ) from None


def read_times(cells: Sequence[str | float | None], zone_name: str | None, order: str | None) -> ReadTimes:
    """All cells of a column. Raises CellError, or BadInput for an option that does not fit."""
    zone = time_zone(zone_name or "UTC")
    written: list[_Written] = []
    for index, cell in enumerate(cells):
        text = "" if cell is None else str(cell).strip()
        one = _written(text)
        if one is None:
            raise CellError(index, f"{shown(text)!r} is no time; {_REMEDY}")
        if written and one.kind != written[0].kind:
            raise CellError(
                index, f"{shown(text)} among {written[0].kind} (as in the first line); write all times alike"
            )
        written.append(one)
    if not written or written[0].unit:
        return ReadTimes([one.seconds for one in written], written[0].kind if written else "")
    chosen = _day_order(written, cells, order)
    seconds: list[float] = []
    for index, one in enumerate(written):
        try:
            seconds.append(_instant(one, chosen, zone, seconds[-1] if seconds else -math.inf))
        except (ValueError, OverflowError) as error:
            raise CellError(index, f"{shown(str(cells[index]).strip())!r} is no time ({error})") from None
    how = "times with a zone"
    if not written[0].zone:
        how = f"times without a zone taken as {zone_name or 'UTC; --time-zone sets another'}"
    if any(one.day_order == "unknown" for one in written):
        how += f", {'day' if chosen == 'dmy' else 'month'} first"
    return ReadTimes(seconds, how)


def _written(text: str) -> _Written | None:
    if len(text) > 64:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        for unit, per_second in _UNITS:
            if _SECONDS[0] <= number / per_second < _SECONDS[1]:
                whole = re.fullmatch(r"\d+", text, re.ASCII)
                return _Written(unit, int(text) / per_second if whole else number / per_second)
    found = _COMPACT.fullmatch(text) or _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if parts["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if parts["half"].lower() == "pm" else 0)
    day_order = "ymd"
    if found.re is _YEAR_LAST:
        day_order = "dmy" if parts["by"] == "." else "unknown"
    part = int((parts["part"] or "0").ljust(6, "0")[:6])
    return _Written(
        year=int(parts["year"]),
        one=int(parts["one"]),
        two=int(parts["two"]),
        day_order=day_order,
        clock=(hour, minute, second, part),
        zone=parts["zone"] or "",
    )


def _day_order(written: Sequence[_Written], cells: Sequence[str | float | None], order: str | None) -> str:
    """dmy or mdy for dates with the year last. Raises CellError where both would do."""
    unknown = [index for index, one in enumerate(written) if one.day_order == "unknown"]
    if not unknown or order is not None:
        return order or "dmy"
    day_first = any(written[index].one > 12 for index in unknown)
    month_first = any(written[index].two > 12 for index in unknown)
    if not day_first and not month_first:
        raise CellError(
            unknown[0],
            f"{shown(str(cells[unknown[0]]))} may be day or month first; pass --date-order dmy or --date-order mdy",
        )
    return "dmy" if day_first else "mdy"


def _instant(one: _Written, order: str, zone: tzinfo, before: float) -> float:
    """Epoch seconds. Raises ValueError for a day or a time of day that does not exist."""
    if one.day_order == "ymd":
        month, day = one.one, one.two
    elif one.day_order == "dmy" or order == "dmy":
        day, month = one.one, one.two
    else:
        month, day = one.one, one.two
    local = datetime(one.year, month, day, *one.clock)
    if one.zone:
        return local.replace(tzinfo=_offset(one.zone)).timestamp()
    if zone is UTC:
        return local.replace(tzinfo=UTC).timestamp()
    return _local_instant(local, zone, before)


def _local_instant(local: datetime, zone: tzinfo, before: float) -> float:
    """A wall clock's time: of an hour that is there twice, the second one where the first would go back."""
    first = local.replace(tzinfo=zone)
    second = first.replace(fold=1)
    if first.utcoffset() == second.utcoffset():
        return first.timestamp()
    if first.timestamp() > second.timestamp():
        raise ValueError(f"the clocks of {zone} skip it: another --time-zone?")
    return second.timestamp() if first.timestamp() <= before else first.timestamp()


def _offset(text: str) -> tzinfo:
    if text in {"Z", "z", "UTC", "GMT"}:
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if offset >= timedelta(hours=24) or int(digits[2:]) > 59:
        raise ValueError(f"{text} is no offset")
    return timezone(-offset if text[0] == "-" else offset)
