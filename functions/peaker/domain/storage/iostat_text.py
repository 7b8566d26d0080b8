"""Reads what `iostat -x` printed: sysstat 7 to 12, text and JSON, whole or cut out of a page or with grep.

What mail does to it is taken back: quote marks, `# ` before every line, quoted-printable, lines that were wrapped.
JSON that sysstat did not close, or that has a lone comma, is read as far as its reports are whole; amounts that it gave
in sectors are halved, and a row that lacks columns leaves its device unknown in that report: `notes` says both.

Understood beside the plain form: sectors, kB and MB columns; headings whose columns have run into each other
(`wrqm/sr/sw/s`); heading and rows on one line; rows without any heading, whose layout follows from their number
of columns and whose unit follows from request size times rate; decimal commas; `-h`, `-s`, `-t`, `-N`, `-z`.
"""

from __future__ import annotations

import json
import math
import quopri
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.decoding import MISFITS
from peaker.domain.storage.io_findings import CpuShares, IostatReport
from peaker.domain.storage.iostat_columns import (
    Columns,
    IostatFormatError,
    Row,
    device_load,
    guess_columns,
    heading_position,
    is_column,
    is_number,
    number_in,
    sectors_as_kib,
    split_columns,
)

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NEXT_ENTRY = re.compile(r"[\s,]*\{")
_QUOTED = re.compile(r"(?:>+[ \t]?)+")
_TOO_SHORT_FOR_A_ROW = 4
_SECTORS = "amounts came in sectors (sysstat 12.1.2 to 12.2.0) and are taken from rate x request size"


@dataclass
class _Draft:
    """A report that is being read."""

    rows: dict[str, Row] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    headings: set[Columns] = field(default_factory=set)
    cpu: CpuShares | None = None
    first_of_run: bool = False
    ended: bool = False


@dataclass(frozen=True)
class IostatText:
    """The complete reports of an input, and what is wrong with the rest of it, if something is."""

    reports: tuple[IostatReport, ...]
    damage: IostatFormatError | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Reports:
    """The reports that were made so far, the rows that none could be made of, and what was mended."""

    made: list[IostatReport] = field(default_factory=list)
    misfits: list[IostatFormatError] = field(default_factory=list)
    mended: Counter[str] = field(default_factory=Counter)

    def add(self, draft: _Draft) -> None:
        loads = []
        for name, row in draft.rows.items():
            try:
                loads.append(device_load(name, row, draft.lines.get(name)))
            except IostatFormatError as error:
                self.misfits.append(error)
        self.made.append(IostatReport(len(self.made) + 1, tuple(loads), draft.cpu, draft.first_of_run))

    def as_text(self, damage: IostatFormatError | None) -> IostatText:
        """Where no row at all is whole, the input is of something else, and the first misfit says so."""
        if self.misfits and not any(report.devices for report in self.made):
            return IostatText((), self.misfits[0])
        unknown = Counter(one.message.split(":")[0] for one in self.misfits)
        of = len(self.made)
        notes = [f"{what}: unknown in {count} of {of} reports" for what, count in unknown.items()]
        notes += [f"{what}, in {count} of {of} reports" for what, count in self.mended.items() if count]
        return IostatText(tuple(self.made), damage, tuple(notes))


def read_iostat(text: str) -> IostatText:
    """The reports before the first damage: a file that was cut or overwritten keeps what it had up to there.

    Raises IostatFormatError when there is not one complete report; never returns nothing.
    """
    found = _read_json(text) if text.lstrip()[:1] == "{" else _TextReader().read(text)
    if not found.reports and found.damage is not None:
        raise found.damage
    if not found.reports:
        raise IostatFormatError(
            max(1, len(text.splitlines())), "no report of iostat -x in the input (run: iostat -x -y 5 12)"
        )
    return found


class _TextReader:
    """Goes through the lines once and cuts them into reports."""

    def __init__(self) -> None:
        self._columns: Columns = ()
        self._name_last = False
        self._cpu_columns: Columns = ()
        self._draft = _Draft(first_of_run=True)
        self._drafts: list[_Draft] = []

    def read(self, text: str) -> IostatText:
        """Stops at the first line that is damaged; the report that it is in is not complete."""
        damage: IostatFormatError | None = None
        lines = _as_printed(text.splitlines())
        try:
            for line, tokens in _unwrapped(lines):
                self._read_line(line, tokens)
        except IostatFormatError as error:
            damage = error
        if damage is None and self._is_cut(text, lines):
            damage = IostatFormatError(len(lines), "the input ends inside a report (was it cut?)")
        if damage is None or self._draft.ended:
            self._close()
        reports = _Reports()
        for draft in self._drafts:
            reports.add(draft)
        return reports.as_text(damage)

    def _is_cut(self, text: str, lines: Sequence[str]) -> bool:
        """iostat ends each report with an empty line; without it, what is less than the report before is cut."""
        if not self._drafts or text.endswith(("\n\n", "\n\r\n")):
            return False
        last, before = self._draft.rows, self._drafts[-1].rows
        if last and last.keys() < before.keys():
            return True
        name, *numbers = lines[-1].split() or [""]
        unfinished = bool(name) and name not in last and any(one.startswith(name) for one in before)
        return not text.endswith("\n") and unfinished and all(map(is_number, numbers))

    def _read_line(self, line: int, tokens: list[str]) -> None:
        if not tokens:
            self._draft.ended = bool(self._draft.rows)
        if not tokens or tokens[0].startswith("#"):
            return
        if tokens[0] == "Linux":
            self._close()
            self._draft.first_of_run = True
            self._columns = ()
        elif tokens[0] == "avg-cpu:":
            self._cpu_columns = tuple(token.lstrip("%") for token in tokens[1:])
        elif self._cpu_columns and len(tokens) == len(self._cpu_columns) and all(map(is_number, tokens)):
            self._read_cpu(tokens)
        elif (at := heading_position(tokens)) is not None:
            self._read_heading(line, tokens, at)
        else:
            self._read_row(line, tokens)

    def _read_cpu(self, tokens: Sequence[str]) -> None:
        if self._draft.rows:
            self._close()
        shares = {
            name: number_in(name, token) or 0.0 for name, token in zip(self._cpu_columns, tokens, strict=True)
        }
        self._draft.cpu = _cpu(shares)
        self._cpu_columns = ()

    def _read_heading(self, line: int, tokens: list[str], at: int) -> None:
        self._name_last = at == len(tokens) - 1 and at > 0
        following = tokens[:at] if self._name_last else tokens[at + 1 :]
        numbers = [index for index, token in enumerate(following) if is_number(token)]
        end = numbers[0] - 1 if numbers else len(following)
        self._columns = tuple(name for token in following[:end] for name in split_columns(token))
        if not {"kB_read/s", "MB_read/s", "Blk_read/s"}.isdisjoint(self._columns):
            raise IostatFormatError(
                line, "iostat ran without -x: no waiting times, no queue (run: iostat -x)"
            )
        if self._columns in self._draft.headings:
            self._close()
        self._draft.headings.add(self._columns)
        width = len(self._columns) + 1
        rest = following[end:]
        for start in range(0, len(rest), width):
            if not self._row_follows(rest[start : start + width]):
                break
            self._read_row(line, rest[start : start + width])

    def _row_follows(self, tokens: Sequence[str]) -> bool:
        """Tells whether a row follows: on a line shared with a heading, prose may follow the rows."""
        return len(tokens) > 1 and not is_number(tokens[0]) and is_number(tokens[1])

    def _read_row(self, line: int, tokens: list[str]) -> None:
        name, numbers = (tokens[-1], tokens[:-1]) if self._name_last else (tokens[0], tokens[1:])
        if is_number(name) or len(numbers) < _TOO_SHORT_FOR_A_ROW or not all(map(is_number, numbers)):
            return
        columns = self._columns or guess_columns(line, name, numbers)
        if len(columns) != len(numbers):
            raise IostatFormatError(
                line,
                f"the row of {name} has {len(numbers)} numbers, its heading names {len(columns)} columns",
            )
        values = {column: number_in(column, token) for column, token in zip(columns, numbers, strict=True)}
        known = self._draft.rows.get(name)
        if known is not None and not known.keys().isdisjoint(values):
            self._close()
            self._draft.headings.add(self._columns)
        self._draft.rows.setdefault(name, {}).update(values)
        self._draft.lines.setdefault(name, line)
        self._draft.ended = False

    def _close(self) -> None:
        if self._draft.rows:
            self._drafts.append(self._draft)
            self._draft = _Draft()


def _as_printed(lines: list[str]) -> list[str]:
    """The lines without what mail put around them; each stays under its number."""
    text = [line for line in lines if line.strip()]
    if text and all(line.startswith("#") for line in text):
        lines = [line.lstrip("#").removeprefix(" ") for line in lines]
    if any(line.startswith(">") for line in text):
        lines = [_QUOTED.sub("", line, count=1) if line.startswith(">") else line for line in lines]
    if any(line.endswith("=") for line in text):
        lines = _decoded(lines)
    return lines


def _decoded(lines: Sequence[str]) -> list[str]:
    """Quoted-printable: a line that ends with `=` goes on in the next one, which is left empty as a comment."""
    plain: list[str] = []
    open_from: int | None = None
    for line in lines:
        goes_on, body = line.endswith("="), line.removesuffix("=")
        decoded = quopri.decodestring(body.encode("utf-8", "replace")).decode("utf-8", "replace")
        if open_from is None:
            plain.append(decoded)
        else:
            plain[open_from] += decoded
            plain.append("#")
        open_from = (len(plain) - 1 if open_from is None else open_from) if goes_on else None
    return plain


def _unwrapped(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The words of each line with its number; headings and rows that were wrapped are joined."""
    held, width = (1, list[str]()), 0
    for line, content in enumerate(lines, 1):
        tokens = [token for token in content.split() if token != "|"]
        if tokens and _goes_on(held[1], tokens, width):
            held[1].extend(tokens)
        else:
            yield held
            held = (line, tokens)
        if held[1] and heading_position(held[1]) == 0:
            width = sum(len(split_columns(token)) for token in held[1][1:])
    yield held


def _goes_on(before: Sequence[str], tokens: Sequence[str], width: int) -> bool:
    """Tells whether a line is the rest of the one before: names after a heading's, or the numbers that a row lacks."""
    if not before:
        return False
    if heading_position(before) == 0:
        return all(map(is_column, [*before[1:], *tokens]))
    numbers = before[1:]
    if is_number(before[0]) or not all(map(is_number, [*numbers, *tokens])):
        return False
    return len(numbers) < width and len(numbers) + len(tokens) <= width


def _read_json(text: str) -> IostatText:
    try:
        hosts = json.loads(text)["sysstat"]["hosts"]
        entries = [(index == 0, entry) for host in hosts for index, entry in enumerate(host["statistics"])]
    except json.JSONDecodeError as error:
        damage = IostatFormatError(error.lineno, f"not JSON: {error.msg} (was iostat killed?)")
        return _json_reports(_complete_entries(text), damage)
    except MISFITS as error:
        raise IostatFormatError(1, f"JSON, but not of iostat -x -o JSON: {error!r}") from error
    return _json_reports(entries, None)


def _complete_entries(text: str) -> Iterator[tuple[bool, Any]]:
    """The reports of a document that is cut or damaged, as far as each is whole; with each, whether it is the first."""
    decoder = json.JSONDecoder()
    for start in _STATISTICS.finditer(text):
        at, first = start.end(), True
        while (begin := _NEXT_ENTRY.match(text, at)) is not None:
            try:
                entry, at = decoder.raw_decode(text, begin.end() - 1)
            except (ValueError, RecursionError):
                return
            yield first, entry
            first = False


def _json_reports(entries: Iterable[tuple[bool, Any]], damage: IostatFormatError | None) -> IostatText:
    reports = _Reports()
    try:
        for first, entry in entries:
            draft = _json_draft(first, entry)
            mended = [sectors_as_kib(row) for row in draft.rows.values()]
            reports.mended[_SECTORS] += any(mended)
            reports.add(draft)
    except MISFITS as error:
        wrong = f"report {len(reports.made) + 1} of the document is not of iostat -x -o JSON: {error!r}"
        damage = IostatFormatError(1, wrong)
    return reports.as_text(damage)


def _json_draft(first: bool, entry: Mapping[str, Any]) -> _Draft:
    draft = _Draft(first_of_run=first)
    if "avg-cpu" in entry:
        draft.cpu = _cpu({name: float(value) for name, value in entry["avg-cpu"].items()})
    for disk in entry.get("disk", ()):
        name = str(disk["disk_device"])
        draft.rows[name] = {_json_column(key): _json_value(disk[key]) for key in disk if key != "disk_device"}
    return draft


def _json_column(key: str) -> str:
    """JSON names percentages without their sign: `rrqm` is %rrqm, `rrqm/s` the rate."""
    return f"%{key}" if key in ("rrqm", "wrqm", "drqm", "util") else key


def _json_value(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _cpu(shares: Mapping[str, float]) -> CpuShares:
    return CpuShares(iowait=shares.get("iowait", 0.0), idle=shares.get("idle", 0.0))
