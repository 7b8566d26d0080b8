"""A load in a delimited text file: which separator, is there a header, which column is the time and which the load.

Names decide first, contents second. Where two columns would do, the file is refused with the option to pass.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from peaker_backtest.errors import BadInput, shown
from peaker_backtest.numbers_in_text import is_missing, looks_like_number
from peaker_backtest.points import LOAD, Column, RawPoints
from peaker_backtest.times_in_text import looks_like_time

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_TIME_NAMES = {
    "timestamp", "time", "datetime", "ts", "date", "epoch", "unixtime", "unixtimestamp", "timestamputc", "timeutc",
    "epochseconds", "epochms", "timestampms", "datetimeutc", "clock", "zeit", "zeitstempel", "datum",
}  # fmt: skip
_LOAD_NAMES = {"value", "load"}
# A column of one of these names that changes along the file tells series apart.
_SERIES_NAMES = {
    "instance", "instanceid", "host", "hostname", "server", "node", "replica", "series", "metric", "metricname", "name",
    "id", "label", "pod", "job", "db", "database", "dbinstanceidentifier", "dimension", "dimensions", "cluster",
    "region", "unit",
}  # fmt: skip
_SAMPLE = 60
_MOST_LINES = 2_000_000
_MOST_PREAMBLE = 40


@dataclass(frozen=True)
class TableChoices:
    """What a person says about the table; a column by its name or its number from 1. None: to be found out."""

    time_column: str | None = None
    load_column: str | None = None
    separator: str | None = None
    column: Column = LOAD


@dataclass(frozen=True)
class _Row:
    line: int
    cells: list[str]


def read_table(source: str, text: str, choices: TableChoices) -> RawPoints:
    """The two columns, cell by cell. Raises BadInput with the line and the option that would help."""
    lines, separator = _lines(source, text, choices)
    if not lines:
        raise BadInput(
            f"{source}: the file is empty; it needs a header such as `timestamp,value` and one row per point", line=1
        )  # fmt: skip
    name = separator or choices.separator or _separator(source, lines)
    rows, preamble = _without_preamble(list(_rows(source, lines, SEPARATORS[name])))
    header, rows = _header(rows)
    width = len(header) if header else len(rows[0].cells)
    names = header or [f"column {number}" for number in range(1, width + 1)]
    rows, repeated = _without_headers(rows, header)
    _check_widths(source, rows, width, name)
    sample = rows[:_SAMPLE]
    time_at = _time_column(source, names, sample, choices, bool(header))
    load_at = _load_column(source, names, sample, choices, time_at)
    _check_one_series(source, rows, names, (time_at, load_at))
    notes = [f"{name}s separate the columns" if name != "comma" else ""]
    notes.append("" if header else "no header: columns by their contents")
    notes.append(f"{repeated} repeated header lines skipped" if repeated else "")
    notes.append(f"{preamble} lines before the header skipped" if preamble else "")
    return RawPoints(
        source=source,
        times=[row.cells[time_at] for row in rows],
        loads=[row.cells[load_at] for row in rows],
        time_name=names[time_at],
        load_name=names[load_at],
        lines=[row.line for row in rows],
        notes=tuple(note for note in notes if note),
    )


def _lines(source: str, text: str, choices: TableChoices) -> tuple[list[tuple[int, str]], str | None]:
    """Numbered lines without blank ones and comments; the separator if the first line names it, as Excel does."""
    separator = None
    found: list[tuple[int, str]] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        named = re.fullmatch(r"sep=(.)", line.strip(" "))
        if not found and separator is None and named and choices.separator is None:
            separator = next((name for name, sign in SEPARATORS.items() if sign == named[1]), None)
            if separator is None:
                raise BadInput(
                    f"{source}, line {number}: {shown(line)} names no separator that is read; pass --separator",
                    line=number, field="--separator",
                )  # fmt: skip
            continue
        found.append((number, line))
        if len(found) > _MOST_LINES:
            raise BadInput(
                f"{source}, line {number}: over {_MOST_LINES:,} lines; export one point a minute or fewer", line=number
            )  # fmt: skip
    return found, separator


def _rows(source: str, lines: Sequence[tuple[int, str]], sign: str) -> Iterator[_Row]:
    for number, line in lines:
        try:
            # Line by line: a quote that is never closed must not swallow the lines after it.
            cells = next(csv.reader([line], delimiter=sign, skipinitialspace=True))
        except (csv.Error, StopIteration) as error:
            raise BadInput(
                f"{source}, line {number}: cannot be split into columns ({error})", line=number
            ) from None
        yield _Row(number, [cell.strip() for cell in cells])


def _separator(source: str, lines: Sequence[tuple[int, str]]) -> str:
    """The one by which the lines have a time and a number each."""
    sample = lines[:_SAMPLE]
    good, split = [], []
    for name, sign in SEPARATORS.items():
        rows = list(_rows(source, sample, sign))
        widths = [len(row.cells) for row in rows]
        usual = max(set(widths), key=widths.count)
        if usual > 1:
            split.append((widths.count(usual), name))
        header = {_plain(cell) for cell in rows[0].cells}
        hits = sum(_has_time_and_number(row.cells) for row in rows)
        if 2 * hits >= max(1, len(rows) - 1) and usual > 1:
            good.append((hits, name))
        elif header & _TIME_NAMES and header & _LOAD_NAMES:
            good.append((0, name))
    best = [name for hits, name in good if hits == max(good)[0]]
    if len(best) == 1:
        return best[0]
    if len(best) > 1:
        raise BadInput(
            f"{source}, line {lines[0][0]}: {' or '.join(best)} may separate the columns; pass --separator "
            f"{best[0]} or --separator {best[1]}",
            line=lines[0][0], field="--separator",
        )  # fmt: skip
    if split:
        return max(split)[1]
    raise BadInput(
        f"{source}, line {lines[0][0]}: {shown(lines[0][1])!r} is one column; a time and a load are needed, separated "
        "by comma, semicolon, tab or pipe",
        line=lines[0][0],
    )


def _has_time_and_number(cells: Sequence[str]) -> bool:
    times = [index for index, cell in enumerate(cells) if looks_like_time(cell)]
    loads = [index for index, cell in enumerate(cells) if looks_like_number(cell)]
    return any(index != times[0] or len(times) > 1 for index in loads) if times else False


def _without_preamble(rows: list[_Row]) -> tuple[list[_Row], int]:
    """The table from its header on, and how many lines stood before: consoles write there what the metric is.

    Only lines without a time and a load are left out, before a line that begins with a usual name of a time.
    """
    for number, row in enumerate(rows[:_MOST_PREAMBLE]):
        if _has_time_and_number(row.cells):
            break
        if len(row.cells) > 1 and _plain(row.cells[0]) in _TIME_NAMES:
            return rows[number:], number
    return rows, 0


def _header(rows: list[_Row]) -> tuple[list[str], list[_Row]]:
    """Names of the columns, empty where the first line is data."""
    first = rows[0].cells
    if _has_time_and_number(first):
        return [], rows
    if len(rows) == 1 and not any(_plain(cell) in _TIME_NAMES | _LOAD_NAMES for cell in first):
        return [], rows
    if any(looks_like_time(cell) or looks_like_number(cell) for cell in first) and not (
        {_plain(cell) for cell in first} & (_TIME_NAMES | _LOAD_NAMES)
    ):
        # Half a line of data: its other half is what the reader must complain about.
        return [], rows
    names = [cell or f"column {number}" for number, cell in enumerate(first, start=1)]
    return names, rows[1:]


def _without_headers(rows: list[_Row], header: list[str]) -> tuple[list[_Row], int]:
    kept = [row for row in rows if row.cells != header]
    return kept, len(rows) - len(kept)


def _check_widths(source: str, rows: Sequence[_Row], width: int, separator: str) -> None:
    for row in rows:
        if len(row.cells) == width + 1 and not row.cells[-1]:
            row.cells.pop()
        if len(row.cells) == width:
            continue
        hint = "write time and load on every line"
        if len(row.cells) > width and separator == "comma":
            hint = "a decimal comma needs quotes or another separator"
        raise BadInput(
            f"{source}, line {row.line}: {len(row.cells)} columns where {width} are needed; {hint}",
            line=row.line,
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(source: str, names: Sequence[str], wanted: str, option: str) -> int:
    found = [index for index, name in enumerate(names) if name.lower() == wanted.strip().lower()]
    if len(found) == 1:
        return found[0]
    if not found and wanted.strip().isascii() and wanted.strip().isdigit() and len(wanted) < 6:
        number = int(wanted)
        if 1 <= number <= len(names):
            return number - 1
    problem = "there are two of it" if found else "there is no such column"
    raise BadInput(f"{source}: {option} is {shown(wanted)}: {problem}; {_listed(names)}", field=option)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(f"{number} `{shown(name)}`" for number, name in enumerate(names[:12], start=1))
    return f"the columns are {listed}" + (" and more" if len(names) > 12 else "")


def _time_column(
    source: str, names: list[str], sample: Sequence[_Row], choices: TableChoices, header: bool
) -> int:
    option = "--time-column"
    if choices.time_column is not None:
        return _named(source, names, choices.time_column, option)
    named = [index for index, name in enumerate(names) if _plain(name) in _TIME_NAMES]
    others = [index for index in range(len(names)) if choices.load_column is None or index != _named(
        source, names, choices.load_column, choices.column.option)]  # fmt: skip
    timed = [index for index in others if _mostly(sample, index, looks_like_time)]
    choice = [index for index in named if index in timed] or timed or named
    if len(choice) == 1:
        return choice[0]
    line = 1 if header else (sample[0].line if sample else 1)
    if not choice:
        raise BadInput(
            f"{source}, line {line}: no column timestamp, and no other that holds times; {_listed(names)}; name the "
            f"columns `timestamp,value`, or pass {option} and {choices.column.option}",
            line=line, field=option,
        )  # fmt: skip
    raise _several(source, line, names, choice, "time", option)


def _load_column(
    source: str, names: list[str], sample: Sequence[_Row], choices: TableChoices, time_at: int
) -> int:
    option = choices.column.option
    line = sample[0].line if sample else 1
    if choices.load_column is not None:
        index = _named(source, names, choices.load_column, option)
        if index == time_at:
            raise BadInput(
                f"{source}: {option} is {shown(choices.load_column)}, which is the time; {_listed(names)}", field=option
            )  # fmt: skip
        return index
    others = [index for index in range(len(names)) if index != time_at]
    named = [index for index in others if _plain(names[index]) in _LOAD_NAMES]
    numeric = [
        index for index in others
        if _plain(names[index]) not in _SERIES_NAMES | _TIME_NAMES and _mostly(sample, index, looks_like_number)
    ]  # fmt: skip
    choice = named or numeric or (others if len(others) == 1 else [])
    if len(choice) == 1:
        return choice[0]
    if not choice:
        raise BadInput(
            f"{source}, line {line}: no column value, and no other that holds numbers beside the time; "
            f"{_listed(names)}; pass {option}",
            line=line, field=option,
        )  # fmt: skip
    raise _several(source, line, names, choice, choices.column.holds, option)


def _several(
    source: str, line: int, names: list[str], choice: Sequence[int], what: str, option: str
) -> BadInput:
    """More than one column may be the time, or the load."""
    which = " and ".join(f"`{shown(names[index])}`" for index in choice[:4])
    return BadInput(
        f"{source}, line {line}: the columns {which} may all be the {what}; pass {option} with a name or a number; "
        f"{_listed(names)}",
        line=line, field=option,
    )  # fmt: skip


def _mostly(sample: Sequence[_Row], index: int, test: object) -> bool:
    cells = [row.cells[index] for row in sample if not is_missing(row.cells[index])]
    hits = sum(bool(test(cell)) for cell in cells) if callable(test) else 0
    return hits > 0 and 2 * hits >= len(cells)


def _check_one_series(source: str, rows: Sequence[_Row], names: Sequence[str], used: tuple[int, int]) -> None:
    for index, name in enumerate(names):
        if index in used or _plain(name) not in _SERIES_NAMES or not rows:
            continue
        first = rows[0].cells[index]
        kinds = {row.cells[index] for row in rows}
        if 1 < len(kinds) <= max(2, len(rows) // 2):
            other = next(row for row in rows if row.cells[index] != first)
            raise BadInput(
                f"{source}, line {other.line}, column {shown(name)}: {shown(other.cells[index])!r} where the lines "
                f"before have {shown(first)!r}: two series in one file; keep one",
                line=other.line, field=name,
            )  # fmt: skip
