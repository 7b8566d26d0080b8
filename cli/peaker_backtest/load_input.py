"""A past load from a file as people have it. Every refusal names the line and column, or the option, and the remedy."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peaker.domain.forecasting import LoadSeries, UnusableSeries, series_from_points
from peaker.domain.forecasting.series import step_for_period

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.json_input import read_json
from peaker_backtest.numbers_in_text import read_loads
from peaker_backtest.points import LOAD, CellError, CheckedPoints, Column, RawPoints, check_points, iso
from peaker_backtest.table_input import TableChoices, read_table
from peaker_backtest.times_in_text import read_times

_MOST_BYTES = 64 * 1024 * 1024
_NO_TEXT = {
    b"PK\x03\x04": "a spreadsheet or an archive: export the sheet as CSV",
    b"\x1f\x8b": "compressed with gzip: unpack it first",
    b"PAR1": "a Parquet file: export it as CSV",
    b"SQLite format 3": "a database: export the table as CSV",
    b"%PDF": "a PDF: export the metric as CSV",
    b"\x89PNG": "a picture: export the metric as CSV",
}


@dataclass(frozen=True)
class Choices:
    """What a person says about the file where it can be read in more than one way; None: found out, or refused."""

    time_column: str | None = None
    load_column: str | None = None
    separator: str | None = None
    decimal: str | None = None
    date_order: str | None = None
    time_zone: str | None = None
    series: str | None = None
    column: Column = LOAD


@dataclass(frozen=True)
class PastLoad:
    """A past load: epoch seconds, loads, the usual distance of points in seconds, and how it was read, in words."""

    times_seconds: list[float]
    values: list[float]
    period_seconds: float
    unit: str = "load units"
    read: tuple[str, ...] = ()

    def series(self) -> LoadSeries:
        """All of it on the grid of its period, gaps as NaN. Raises BadInput."""
        end = max(self.times_seconds) + self.period_seconds
        step = self.period_seconds
        days = (end - min(self.times_seconds)) / 86_400 + 1
        try:
            return series_from_points(
                self.times_seconds, self.values, now_seconds=end, period_seconds=step, keep_days=days
            )
        except UnusableSeries as error:
            raise BadInput(str(error)) from error


def read_load(path: Path, choices: Choices | None = None) -> PastLoad:
    """Read the file, or standard input for `-`. Raises BadInput."""
    return parse_load(shown(str(path)), file_bytes(path), choices or Choices())


def parse_load(source: str, content: bytes, choices: Choices) -> PastLoad:
    """The load in `content`; `source` is its name in messages. Raises BadInput and nothing else."""
    text = _text(source, content)
    if text.lstrip()[:1] in {"{", "["}:
        raw = read_json(source, text, choices.series, choices.load_column, choices.column)
    else:
        if choices.series is not None:
            raise BadInput(f"{source}: --series is for JSON; a table takes --load-column", field="--series")
        raw = read_table(
            source, text,
            TableChoices(choices.time_column, choices.load_column, choices.separator, choices.column),
        )  # fmt: skip
    return _past_load(replace(raw, column=choices.column), choices)


def metric_load(
    source: str,
    name: str,
    times_seconds: Sequence[float],
    values: Sequence[float],
    notes: tuple[str, ...] = (),
    column: Column = LOAD,
) -> PastLoad:
    """The load of a metric `name` that was read from `source` itself, checked as a file's is. Raises BadInput."""
    raw = RawPoints(
        source=source,
        times=times_seconds,
        loads=values,
        time_name="time",
        load_name=name,
        places=[f"the point of {iso(at)}" for at in times_seconds],
        unit=name,
        notes=notes,
        column=column,
    )
    try:
        loads = read_loads(values, None, column.holds)
    except CellError as error:
        raise raw.refusal(error.index, name, str(error)) from None
    return _as_read(raw, check_points(raw, times_seconds, loads.values), f"{source} as {column.holds}")


def _past_load(raw: RawPoints, choices: Choices) -> PastLoad:
    column = raw.time_name
    try:
        times = read_times(raw.times, choices.time_zone, choices.date_order)
        column = raw.load_name
        loads = read_loads(raw.loads, choices.decimal, raw.column.holds)
    except CellError as error:
        raise raw.refusal(error.index, column, str(error)) from None
    time = f"column `{shown(raw.time_name)}` as time ({times.how})"
    load = f"column `{shown(raw.load_name)}` as {raw.column.holds}" + (f" ({loads.how})" if loads.how else "")
    return _as_read(raw, check_points(raw, times.seconds, loads.values), f"{time}, {load}")


def _as_read(raw: RawPoints, checked: CheckedPoints, columns: str) -> PastLoad:
    """The load with what was read, in words; `columns` says what stands for time and load."""
    step = step_for_period(checked.period_seconds)
    averaged = "" if checked.period_seconds >= step else f", averaged over steps of {step / 60:g} min"
    span = f"from {iso(checked.times[0])} to {iso(checked.times[-1])}"
    points = f"read {len(checked.times):,} points, {_every(checked.period_seconds)}{averaged}, {span} UTC"
    notes = [*raw.notes, *checked.notes]
    return PastLoad(
        times_seconds=checked.times,
        values=checked.loads,
        period_seconds=checked.period_seconds,
        unit=shown(raw.unit) or "load units",
        read=(f"{points}, {columns}", *(["; ".join(notes)] if notes else [])),
    )


def _every(seconds: float) -> str:
    return f"every {seconds / 60:g} min" if seconds >= 60 else f"every {seconds:g} s"


def file_bytes(path: Path) -> bytes:
    """The file's content, or standard input's for `-`. Raises BadInput."""
    name = shown(str(path))
    if str(path) == "-":
        return _within_limit("standard input", sys.stdin.buffer.read(_MOST_BYTES + 1))
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise BadInput(f"{name}: a directory; give the path of a file")
        with path.open("rb") as file:
            return _within_limit(name, file.read(_MOST_BYTES + 1))
    except FileNotFoundError:
        raise BadInput(f"{name}: there is no such file; give the path of a CSV or JSON export") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{name}: cannot be read ({shown(str(error))})") from None


def _within_limit(name: str, content: bytes) -> bytes:
    if len(content) > _MOST_BYTES:
        raise BadInput(
            f"{name}: over {_MOST_BYTES // 1024**2} MiB; export one point a minute or fewer, of one series"
        )
    return content


def _text(source: str, content: bytes) -> str:
    for magic, what in _NO_TEXT.items():
        if content.startswith(magic):
            raise BadInput(f"{source}: no text but {what}")
    # A byte order mark says which Unicode it is; Excel and PowerShell write UTF-16.
    utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", content[: error.start])) + 1
        raise BadInput(
            f"{source}, line {line}: cannot be read as {'UTF-16' if utf16 else 'UTF-8'} text; export the metric as CSV "
            "in UTF-8",
            line=line,
        ) from None
    if "\x00" in text:
        line = len(re.findall(r"\r\n|\r|\n", text[: text.index("\x00")])) + 1
        raise BadInput(f"{source}, line {line}: a NUL byte: no text; export the metric as CSV", line=line)
    return text
