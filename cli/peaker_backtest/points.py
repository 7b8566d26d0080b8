"""Points as they were written, with their place in the input, and the checks that only the whole of them allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from peaker.domain.forecasting import UnusableSeries
from peaker.domain.forecasting.series import step_for_period, usual_period

from peaker_backtest.errors import BadInput, shown

_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_DAY = 86_400.0
LONGEST_GAP_DAYS = 14.0
_LONGEST_SPAN_DAYS = 3_660.0
_LEAST_SEEN_SHARE = 0.5
# So many lines may stand out of order: exports that were appended to each other.
_MOST_DISORDER_SHARE, _MOST_DISORDER_LINES = 0.05, 3
# Points far from all others are called wrong, rather than the others incomplete, up to this share.
_STRAY_SHARE = 0.05


@dataclass(frozen=True)
class Column:
    """What a column of numbers holds, in words, and the options that name it in a table and in a JSON export."""

    holds: str = "load"
    option: str = "--load-column"
    series_option: str = "--series"


LOAD = Column()


class CellError(ValueError):
    """The cell at `index` of a column cannot be used."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


@dataclass(frozen=True)
class RawPoints:
    """A column of times and one of loads, cell by cell, and where each stands.

    lines: 1-based line of each point in a table; places: its path in a JSON document. One of them is empty.
    """

    source: str
    times: Sequence[str | float | None]
    loads: Sequence[str | float | None]
    time_name: str
    load_name: str
    lines: Sequence[int] = ()
    places: Sequence[str] = ()
    unit: str = ""
    notes: tuple[str, ...] = ()
    column: Column = LOAD

    def refusal(self, index: int, column: str, message: str) -> BadInput:
        """The refusal of one point's time or load."""
        if self.lines:
            where = f"line {self.lines[index]}, column {shown(column)}"
            return BadInput(f"{self.source}, {where}: {message}", line=self.lines[index], field=column)
        place = self.places[index]
        return BadInput(f"{self.source}, {shown(place)}, {shown(column)}: {message}", field=place)

    def place(self, index: int) -> str:
        """Where the point stands, in words."""
        return f"line {self.lines[index]}" if self.lines else self.places[index]


@dataclass(frozen=True)
class CheckedPoints:
    """Points in order of time, each time once: epoch seconds, loads, usual distance in seconds, what was mended."""

    times: list[float]
    loads: list[float]
    period_seconds: float
    notes: list[str] = field(default_factory=list)


def check_points(raw: RawPoints, times: Sequence[float], loads: Sequence[float | None]) -> CheckedPoints:
    """Everything that makes the points unusable as one past load is refused, with its place. Raises BadInput."""
    for index, at in enumerate(times):
        if not _EARLIEST <= at < _LATEST:
            cell = shown(str(raw.times[index]).strip())
            raise raw.refusal(
                index, raw.time_name, f"{cell} is {_year(at)}; a time of 1990 to 2099 is expected: correct the line"
            )  # fmt: skip
    kept = [index for index, load in enumerate(loads) if load is not None]
    notes = []
    if len(kept) < len(times):
        notes.append(f"{_count(len(times) - len(kept), 'point')} without a value: missing, not 0")
    if len(kept) < 2:
        raise BadInput(
            f"{raw.source}, {shown(raw.load_name)}: {_count(len(kept), 'point')} with a value; at least two weeks "
            "of points make a backtest",
            field=raw.load_name,
        )
    if raw.lines:
        notes += _check_order(raw, times, kept)
    kept.sort(key=lambda index: times[index])
    kept, doubled = _without_doubles(raw, times, loads, kept)
    if doubled:
        notes.append(f"{_count(doubled, 'line' if raw.lines else 'point')} said twice, the same: taken once")
    if len(kept) < 2:
        raise BadInput(
            f"{raw.source}, column {shown(raw.time_name)}: all points have one and the same time",
            field=raw.time_name,
        )
    ordered = np.array([times[index] for index in kept])
    period = usual_period(ordered)
    _check_gaps(raw, ordered, kept)
    _check_period(raw, ordered, period)
    return CheckedPoints(ordered.tolist(), [float(loads[index] or 0.0) for index in kept], period, notes)


def _year(at: float) -> str:
    try:
        return f"in the year {datetime.fromtimestamp(at, UTC).year}"
    except (ValueError, OverflowError, OSError):
        return "in no year of the calendar"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _check_order(raw: RawPoints, times: Sequence[float], kept: Sequence[int]) -> list[str]:
    """Lines may run either way, with the odd exception; a shuffled file is damaged, or its dates are misread."""
    steps = np.diff([times[index] for index in kept])
    falls, rises = np.flatnonzero(steps < 0), np.flatnonzero(steps > 0)
    newest_first = len(falls) > len(rises)
    odd = rises if newest_first else falls
    if len(odd) > max(_MOST_DISORDER_LINES, _MOST_DISORDER_SHARE * len(kept)):
        raise raw.refusal(
            kept[int(odd[0]) + 1],
            raw.time_name,
            f"the times go back and forth ({len(odd):,} of {len(kept):,} lines): sort the file by time, and check "
            "that day and month were read as you write them (--date-order)",
        )
    notes = ["newest first: put in order"] if newest_first else []
    if len(odd):
        notes.append(f"{_count(len(odd), 'line')} out of order: put in order")
    return notes


def _without_doubles(
    raw: RawPoints, times: Sequence[float], loads: Sequence[float | None], kept: Sequence[int]
) -> tuple[list[int], int]:
    found: list[int] = []
    for index in kept:
        if not found or times[found[-1]] != times[index]:
            found.append(index)
        elif loads[found[-1]] != loads[index]:
            first, second = sorted((found[-1], index))
            raise raw.refusal(
                second,
                raw.time_name,
                f"the time of {raw.place(first)} again ({iso(times[index])}) with another {raw.column.holds}, "
                f"{loads[second]:g} "
                f"and not {loads[first]:g}: two series in one file, or a clock change (--time-zone); keep one series",
            )
    return found, len(kept) - len(found)


def _check_gaps(
    raw: RawPoints, ordered: np.ndarray[tuple[int], np.dtype[np.float64]], kept: list[int]
) -> None:
    gaps = np.diff(ordered) / _DAY
    wide = np.flatnonzero(gaps > LONGEST_GAP_DAYS)
    if not len(wide):
        return
    parts = np.split(np.arange(len(kept)), wide + 1)
    main = max(parts, key=len)
    strays = [kept[int(at)] for part in parts if part is not main for at in part]
    if len(strays) <= max(1, _STRAY_SHARE * len(kept)) and len(main) > 1:
        first = min(strays)
        raise raw.refusal(
            first,
            raw.time_name,
            f"{shown(str(raw.times[first]).strip())} lies over {LONGEST_GAP_DAYS:.0f} days from every other point: "
            "correct or remove it",
        )
    widest = int(np.argmax(gaps))
    raise raw.refusal(
        kept[widest + 1],
        raw.time_name,
        f"{gaps[widest]:,.0f} days without a point before it, from {iso(float(ordered[widest]))}: over "
        f"{LONGEST_GAP_DAYS:.0f} days nothing can be said; keep the part after the gap",
    )


def _check_period(
    raw: RawPoints, ordered: np.ndarray[tuple[int], np.dtype[np.float64]], period: float
) -> None:
    span = float(ordered[-1] - ordered[0])
    if span > _LONGEST_SPAN_DAYS * _DAY:
        raise BadInput(
            f"{raw.source}, column {shown(raw.time_name)}: {span / _DAY:,.0f} days, from {iso(float(ordered[0]))} to "
            f"{iso(float(ordered[-1]))}; give the newest {_LONGEST_SPAN_DAYS:,.0f} at most",
            field=raw.time_name,
        )
    if period < 1:
        raise BadInput(
            f"{raw.source}, column {shown(raw.time_name)}: a point every {period:.2g} s looks like single requests; "
            "count them per 5 minutes",
            field=raw.time_name,
        )
    try:
        step = step_for_period(period)
    except UnusableSeries as error:
        raise BadInput(
            f"{raw.source}, column {shown(raw.time_name)}: {error}", field=raw.time_name
        ) from error
    steps = int(span // step) + 1
    seen = len(np.unique(ordered // step))
    if seen < _LEAST_SEEN_SHARE * steps:
        raise BadInput(
            f"{raw.source}, column {shown(raw.time_name)}: {steps - seen:,} of {steps:,} steps of {step / 60:g} min "
            "have no point: too many gaps to judge; export every point",
            field=raw.time_name,
        )


def iso(at: float) -> str:
    """A time for a person, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
