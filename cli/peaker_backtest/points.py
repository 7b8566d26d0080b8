"""Points of a past load, each time once and in order, and the checks that only the whole of them allows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from peaker.domain.forecasting import UnusableSeries
from peaker.domain.forecasting.series import step_for_period, usual_period

from peaker_backtest.errors import BadInput, shown

LONGEST_GAP_DAYS = 14.0
_DAY = 86_400.0
_LONGEST_SPAN_DAYS = 3_660.0
_LEAST_SEEN_SHARE = 0.5
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
# Above this, sums over months lose their cents, and no load has it.
_HIGHEST = 1e15
Load = str | float | None


class Row(NamedTuple):
    """One point as it was written, and its line or its place in a JSON document."""

    place: str
    time: str
    load: Load


class Point(NamedTuple):
    """A load at an instant, in epoch seconds, and where it was written."""

    at: float
    load: float
    place: str


def load_value(source: str, place: str, written: Load) -> float | None:
    """Returns the load, None where it is missing. Raises BadInput."""
    if written is None or written == "":
        return None
    if isinstance(written, str) and not _NUMBER.fullmatch(written):
        raise BadInput(
            f"{source}, {place}: {shown(written)!r} is no number; write decimals with a point, and leave a missing "
            "load empty"
        )
    load = float(written)
    if not 0 <= load <= _HIGHEST:
        raise BadInput(
            f"{source}, {place}: a load cannot be {shown(str(written))}; write a number from 0 to {_HIGHEST:g}, and "
            "leave a missing load empty"
        )
    return load + 0.0


def checked_points(
    source: str, points: Sequence[Point], doubled: str
) -> tuple[list[Point], float, list[str]]:
    """Returns the points in order of time, their usual distance in seconds, and what was mended.

    `doubled` is the remedy for a time that is there twice. Raises BadInput for points that are no past load.
    """
    ordered: list[Point] = []
    for point in sorted(points, key=lambda one: one.at):
        before = ordered[-1] if ordered else None
        if before is None or point.at != before.at:
            ordered.append(point)
        elif point.load != before.load:
            raise BadInput(
                f"{source}, {point.place}: the time of {before.place} again ({iso(point.at)}) with another load, "
                f"{point.load:g} and not {before.load:g}: {doubled}"
            )
    notes = [f"{len(points) - len(ordered):,} said twice: taken once"] if len(points) > len(ordered) else []
    if len(ordered) < 2:
        raise BadInput(
            f"{source}: points with a load at {len(ordered)} times; a backtest takes weeks of points"
        )
    period = usual_period(np.array([point.at for point in ordered]))
    for before, after in pairwise(ordered):
        if after.at - before.at > LONGEST_GAP_DAYS * _DAY:
            raise BadInput(
                f"{source}, {after.place}: {(after.at - before.at) / _DAY:,.0f} days without a point between "
                f"{iso(before.at)} ({before.place}) and {iso(after.at)}: correct the wrong time, or keep the "
                "part after the gap"
            )
    _check_period(source, ordered, period)
    return ordered, period, notes


def _check_period(source: str, ordered: Sequence[Point], period: float) -> None:
    span = ordered[-1].at - ordered[0].at
    if span > _LONGEST_SPAN_DAYS * _DAY:
        raise BadInput(
            f"{source}: {span / _DAY:,.0f} days; give the newest {_LONGEST_SPAN_DAYS:,.0f} at most"
        )
    if period < 1:
        raise BadInput(
            f"{source}: a point every {period:.2g} s looks like single requests; count them per 5 minutes"
        )
    try:
        step = step_for_period(period)
    except UnusableSeries as error:
        raise BadInput(f"{source}: {error}") from error
    steps = math.floor(span / step) + 1
    unseen = steps - len({point.at // step for point in ordered})
    if unseen > (1 - _LEAST_SEEN_SHARE) * steps:
        raise BadInput(
            f"{source}: {unseen:,} of {steps:,} steps of {step / 60:g} min have no point: too many gaps to judge; "
            "export every point"
        )


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


# A number of these years is in the range of one unit only.
_FIRST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
_LAST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_EPOCH_NUMBER = re.compile(r"\d{9,13}(\.\d*)?", re.ASCII)
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
    if _EPOCH_NUMBER.fullmatch(text):
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
