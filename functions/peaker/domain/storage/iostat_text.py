"""Reads what `iostat -x` printed: sysstat 7 to 12, text and JSON, whole or cut out of a page or with grep.

Understood beside the plain form: sectors, kB and MB columns; headings whose columns have run into each other
(`wrqm/sr/sw/s`); heading and rows on one line; rows without any heading, whose layout follows from their number
of columns and whose unit follows from request size times rate; decimal commas; `-h`, `-s`, `-t`, `-N`, `-z`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.decoding import MISFITS
from peaker.domain.storage.device_load import CpuShares, DeviceLoad, IostatReport

Columns = tuple[str, ...]
Row = dict[str, float | None]

_RATES = ("r/s", "w/s", "d/s", "f/s", "rrqm/s", "wrqm/s", "drqm/s", "rqm/s")
_AMOUNTS = tuple(
    f"{side}{unit}/s" for unit in ("sec", "kB", "MB") for side in ("r", "w", "d", "")
)  # fmt: skip
_WAITS = ("r_await", "w_await", "d_await", "f_await", "await", "svctm")
_SIZES = ("avgrq-sz", "rareq-sz", "wareq-sz", "dareq-sz", "areq-sz", "avgqu-sz", "aqu-sz")
_SHARES = ("%rrqm", "%wrqm", "%drqm", "%util")
_KNOWN = (*_RATES, *_AMOUNTS, *_WAITS, *_SIZES, *_SHARES, "tps")
_RUN_TOGETHER = re.compile("|".join(re.escape(name) for name in sorted(_KNOWN, key=len, reverse=True)))
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?[kKMGTP%]?|nan|inf)")
_KIB_OF_SUFFIX = {"k": 1.0, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}
_KIB_OF_UNIT = {"sec": 0.5, "kB": 1.0, "MB": 1024.0}
_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NEXT_ENTRY = re.compile(r"[\s,]*\{")
_AGREES_WITHIN = 0.1
_TOO_SHORT_FOR_A_ROW = 4
_LONGEST_REASON = 500

_NEW = "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz"
_NEW_DISCARDS = _NEW + " d/s dkB/s drqm/s %drqm d_await dareq-sz"
_HEADLESS: Mapping[int, tuple[str, ...]] = {
    7: ("tps kB/s rqm/s await areq-sz aqu-sz %util",),
    11: tuple(
        f"rrqm/s wrqm/s r/s w/s r{unit}/s w{unit}/s avgrq-sz avgqu-sz await svctm %util"
        for unit in _KIB_OF_UNIT
    ),
    13: (
        *(
            f"rrqm/s wrqm/s r/s w/s r{unit}/s w{unit}/s avgrq-sz avgqu-sz await r_await w_await svctm %util"
            for unit in _KIB_OF_UNIT
        ),
        "rrqm/s wrqm/s r/s w/s rsec/s wsec/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util",
    ),
    15: (
        "r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util",
        "r/s w/s rMB/s wMB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util",
    ),
    14: (f"{_NEW} aqu-sz %util", f"{_NEW.replace('kB/s', 'MB/s')} aqu-sz %util"),
    20: (f"{_NEW_DISCARDS} aqu-sz %util", f"{_NEW_DISCARDS.replace('kB/s', 'MB/s')} aqu-sz %util"),
    22: (
        f"{_NEW_DISCARDS} f/s f_await aqu-sz %util",
        f"{_NEW_DISCARDS.replace('kB/s', 'MB/s')} f/s f_await aqu-sz %util",
    ),
}


class IostatFormatError(ValueError):
    """The input is not the output of `iostat -x`. Carries the line (counted from 1) where that showed."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}..."
        super().__init__(f"line {line}: {self.message}")


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


def parse_iostat(text: str) -> tuple[IostatReport, ...]:
    """All reports in the order printed, numbered from 1. Raises IostatFormatError; never returns nothing."""
    found = read_iostat(text)
    if found.damage is not None:
        raise found.damage
    return found.reports


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
        lines = text.splitlines()
        try:
            for line, content in enumerate(lines, 1):
                self._read_line(line, [token for token in content.split() if token != "|"])
        except IostatFormatError as error:
            damage = error
        if damage is None and self._is_cut(text, lines):
            damage = IostatFormatError(len(lines), "the input ends inside a report (was it cut?)")
        if damage is None or self._draft.ended:
            self._close()
        reports: list[IostatReport] = []
        try:
            for number, draft in enumerate(self._drafts, 1):
                reports.append(_report(number, draft))
        except IostatFormatError as error:
            damage = error
        return IostatText(tuple(reports), damage)

    def _is_cut(self, text: str, lines: Sequence[str]) -> bool:
        """iostat ends each report with an empty line; without it, what is less than the report before is cut."""
        if not self._drafts or text.endswith(("\n\n", "\n\r\n")):
            return False
        last, before = self._draft.rows, self._drafts[-1].rows
        if last and last.keys() < before.keys():
            return True
        name, *numbers = lines[-1].split() or [""]
        unfinished = bool(name) and name not in last and any(one.startswith(name) for one in before)
        return not text.endswith("\n") and unfinished and all(map(_is_number, numbers))

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
        elif self._cpu_columns and len(tokens) == len(self._cpu_columns) and all(map(_is_number, tokens)):
            self._read_cpu(tokens)
        elif (at := _heading_position(tokens)) is not None:
            self._read_heading(line, tokens, at)
        else:
            self._read_row(line, tokens)

    def _read_cpu(self, tokens: Sequence[str]) -> None:
        if self._draft.rows:
            self._close()
        shares = {
            name: _number(name, token) or 0.0 for name, token in zip(self._cpu_columns, tokens, strict=True)
        }
        self._draft.cpu = _cpu(shares)
        self._cpu_columns = ()

    def _read_heading(self, line: int, tokens: list[str], at: int) -> None:
        self._name_last = at == len(tokens) - 1 and at > 0
        following = tokens[:at] if self._name_last else tokens[at + 1 :]
        numbers = [index for index, token in enumerate(following) if _is_number(token)]
        end = numbers[0] - 1 if numbers else len(following)
        self._columns = tuple(name for token in following[:end] for name in _split_columns(token))
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
        """On a line shared with a heading, prose may follow the rows."""
        return len(tokens) > 1 and not _is_number(tokens[0]) and _is_number(tokens[1])

    def _read_row(self, line: int, tokens: list[str]) -> None:
        name, numbers = (tokens[-1], tokens[:-1]) if self._name_last else (tokens[0], tokens[1:])
        if _is_number(name) or len(numbers) < _TOO_SHORT_FOR_A_ROW or not all(map(_is_number, numbers)):
            return
        columns = self._columns or _guess_columns(line, name, numbers)
        if len(columns) != len(numbers):
            raise IostatFormatError(
                line,
                f"the row of {name} has {len(numbers)} numbers, its heading names {len(columns)} columns",
            )
        values = {column: _number(column, token) for column, token in zip(columns, numbers, strict=True)}
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
    reports: list[IostatReport] = []
    try:
        for first, entry in entries:
            reports.append(_json_report(len(reports) + 1, first, entry))
    except IostatFormatError as error:
        damage = error
    except MISFITS as error:
        wrong = f"report {len(reports) + 1} of the document is not of iostat -x -o JSON: {error!r}"
        damage = IostatFormatError(1, wrong)
    return IostatText(tuple(reports), damage)


def _json_report(number: int, first: bool, entry: Mapping[str, Any]) -> IostatReport:
    draft = _Draft(first_of_run=first)
    if "avg-cpu" in entry:
        draft.cpu = _cpu({name: float(value) for name, value in entry["avg-cpu"].items()})
    for disk in entry.get("disk", ()):
        name = str(disk["disk_device"])
        draft.rows[name] = {_json_column(key): _json_value(disk[key]) for key in disk if key != "disk_device"}
    return _report(number, draft)


def _json_column(key: str) -> str:
    """JSON names percentages without their sign: `rrqm` is %rrqm, `rrqm/s` the rate."""
    return f"%{key}" if key in ("rrqm", "wrqm", "drqm", "util") else key


def _json_value(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _cpu(shares: Mapping[str, float]) -> CpuShares:
    return CpuShares(iowait=shares.get("iowait", 0.0), idle=shares.get("idle", 0.0))


def _report(number: int, draft: _Draft) -> IostatReport:
    loads = tuple(_load(name, row, draft.lines.get(name)) for name, row in draft.rows.items())
    return IostatReport(number, loads, draft.cpu, draft.first_of_run)


def _load(name: str, row: Row, line: int | None) -> DeviceLoad:
    """One device's row in common units. Raises IostatFormatError when it lacks rate, amount or queue."""
    queue = _first(row, "aqu-sz", "avgqu-sz")
    reads, writes = row.get("r/s"), row.get("w/s")
    requests = row.get("tps") if reads is None or writes is None else reads + writes
    kib = _kib_per_s(row)
    if queue is None or requests is None or kib is None:
        missing = (
            "queue (aqu-sz)" if queue is None else "rate (r/s, w/s)" if requests is None else "amount (rkB/s)"
        )
        raise IostatFormatError(line or 1, f"the row of {name} has no {missing}: is it of iostat -x?")
    completed = requests > 0
    return DeviceLoad(
        device=name,
        requests_per_s=requests,
        kib_per_s=kib,
        queue=queue,
        await_ms=_await_ms(row) if completed else None,
        request_kib=_request_kib(row, requests, kib) if completed else None,
        reads_per_s=reads,
        writes_per_s=writes,
        read_await_ms=row.get("r_await") if reads else None,
        write_await_ms=row.get("w_await") if writes else None,
        merged_writes_per_s=row.get("wrqm/s"),
        svctm_ms=row.get("svctm") if completed else None,
        util_percent=row.get("%util"),
        line=line,
    )


def _await_ms(row: Row) -> float | None:
    """The mean over all requests: printed by old versions, weighted from reads and writes for new ones."""
    if row.get("await") is not None:
        return row["await"]
    reads, writes = row.get("r/s") or 0.0, row.get("w/s") or 0.0
    read_await, write_await = row.get("r_await"), row.get("w_await")
    if reads + writes <= 0 or read_await is None or write_await is None:
        return None
    return (reads * read_await + writes * write_await) / (reads + writes)


def _request_kib(row: Row, requests: float, kib: float) -> float:
    """Printed in sectors by old versions; more exact than amount by rate when MB/s are rounded."""
    sectors = row.get("avgrq-sz")
    return kib / requests if sectors is None else sectors / 2


def _kib_per_s(row: Row) -> float | None:
    for unit, kib in _KIB_OF_UNIT.items():
        read, written, both = row.get(f"r{unit}/s"), row.get(f"w{unit}/s"), row.get(f"{unit}/s")
        if read is not None and written is not None:
            return (read + written) * kib
        if both is not None:
            return both * kib
    return None


def _guess_columns(line: int, name: str, numbers: Sequence[str]) -> Columns:
    """The layout of a row without heading: by its number of columns, then by request size x rate = amount."""
    layouts = [tuple(layout.split()) for layout in _HEADLESS.get(len(numbers), ())]
    if not layouts:
        raise IostatFormatError(
            line, f"no heading, and no version of iostat -x prints {len(numbers)} numbers (row of {name})"
        )
    return max(layouts, key=lambda layout: _agreement(layout, numbers))


def _agreement(layout: Columns, numbers: Sequence[str]) -> float:
    """1 when the row's own arithmetic holds in this layout, less the further it is off; first layouts win ties."""
    row = {column: _number(column, token) for column, token in zip(layout, numbers, strict=True)}
    reads, writes = row.get("r/s") or 0.0, row.get("w/s") or 0.0
    expected = (reads + writes) * (row.get("avgrq-sz") or 0.0) / 2
    if "avgrq-sz" not in row:
        expected = reads * (row.get("rareq-sz") or 0.0) + writes * (row.get("wareq-sz") or 0.0)
    amount = _kib_per_s(row) or 0.0
    if expected <= 0 or amount <= 0:
        return 0.0
    closeness = min(expected, amount) / max(expected, amount)
    split = _split_agreement(row)
    return (1.0 if closeness > 1 - _AGREES_WITHIN else closeness) + split


def _split_agreement(row: Row) -> float:
    """Tells the two layouts of 13 columns apart: the mean wait must be that of reads and writes."""
    mean, read, write = row.get("await"), row.get("r_await"), row.get("w_await")
    if mean is None or read is None or write is None:
        return 0.0
    reads, writes = row.get("r/s") or 0.0, row.get("w/s") or 0.0
    weighted = (reads * read + writes * write) / (reads + writes) if reads + writes else 0.0
    return 1.0 if abs(weighted - mean) <= _AGREES_WITHIN * max(mean, 0.1) else -1.0


def _heading_position(tokens: Sequence[str]) -> int | None:
    """Where the word Device stands in a heading; None when the line is no heading."""
    for index, token in enumerate(tokens):
        if token.rstrip(":") == "Device":
            others = [*tokens[:index], *tokens[index + 1 :]]
            if any(name in _KNOWN for other in others for name in _split_columns(other)):
                return index
    return None


def _split_columns(token: str) -> Columns:
    """The column names in one word of a heading, which may have run into each other."""
    names = _RUN_TOGETHER.findall(token)
    return tuple(names) if "".join(names) == token else (token,)


def _is_number(token: str) -> bool:
    return _NUMBER.fullmatch(token) is not None


def _number(column: str, token: str) -> float | None:
    """A printed number; `-h` adds units, which stand for KiB whatever the column is called. None for nan."""
    suffix = token[-1]
    value = float(token.rstrip("kKMGTP%").replace(",", "."))
    if not math.isfinite(value):
        return None
    if suffix in _KIB_OF_SUFFIX:
        return value * _KIB_OF_SUFFIX[suffix] / (1024.0 if "MB/s" in column else 1.0)
    return value


def _first(row: Row, *names: str) -> float | None:
    return next((row[name] for name in names if row.get(name) is not None), None)
