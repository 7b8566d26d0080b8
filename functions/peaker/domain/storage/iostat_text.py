"""Reads what `iostat -x` prints, text with its headings or JSON, and names the line of what it cannot read.

Columns of sysstat 7 to 12 are known: amounts in sectors, kB or MB; waits of all requests or of reads and writes. So are
`-h`, `-s`, `-t`, `-N` and `-z`, decimal commas, and rows that were cut out with grep below one heading.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.decoding import MISFITS
from peaker.domain.storage.io_findings import CpuShares, DeviceLoad, IostatReport

Row = dict[str, float | None]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?[kKMGTP%]?|nan|inf)")
_KIB_OF_SUFFIX = {"k": 1.0, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}
_KIB_OF_UNIT = {"sec": 0.5, "kB": 1.0, "MB": 1024.0}
_LONGEST_REASON = 500


class IostatFormatError(ValueError):
    """The input is not the output of `iostat -x`. Carries the line (counted from 1) where that showed."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}..."
        super().__init__(f"line {line}: {self.message}")


@dataclass(frozen=True)
class IostatText:
    """The complete reports of an input, the damage that ended them, and what is unknown or was corrected by device."""

    reports: tuple[IostatReport, ...]
    damage: IostatFormatError | None = None
    notes: tuple[str, ...] = ()


def read_iostat(text: str) -> IostatText:
    """Reads the reports in the order printed, numbered from 1; of a damaged text those before the damage.

    Raises IostatFormatError when there is not one complete report.
    """
    found = _read_json(text) if text.lstrip()[:1] == "{" else _TextReader().read(text)
    if not found.reports:
        nothing = "no report of iostat -x in the input, with its lines as printed (run: iostat -x -y 5 12)"
        raise found.damage or IostatFormatError(max(1, len(text.splitlines())), nothing)
    return found


@dataclass
class _Draft:
    """A report that is being read."""

    rows: dict[str, Row] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    headings: set[tuple[str, ...]] = field(default_factory=set)
    cpu: CpuShares | None = None
    first_of_run: bool = False

    def report(self, number: int, notes: dict[str, str]) -> IostatReport:
        """A device that lacks columns is left out and noted. Raises IostatFormatError when all are."""
        loads, lacks = [], None
        for name, row in self.rows.items():
            if _has_sectors_as_kib(row):
                notes[name] = f"amounts of {name} came in sectors under the name of KiB and were halved"
                row |= {key: value / 2 for key, value in row.items() if "kB/s" in key and value}
            try:
                loads.append(_device_load(name, row, self.lines.get(name, 1)))
            except IostatFormatError as error:
                lacks = lacks or error
                notes[name] = (
                    f"{error.message.split(':')[0]}: unknown in such reports, the last one is {number}"
                )
        if lacks is not None and not loads:
            raise lacks
        return IostatReport(number, tuple(loads), self.cpu, self.first_of_run)


class _TextReader:
    """Goes through the lines once and cuts them into reports."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()
        self._name_last = False
        self._cpu_columns: tuple[str, ...] = ()
        self._draft = _Draft(first_of_run=True)
        self._reports: list[IostatReport] = []
        self._notes: dict[str, str] = {}

    def read(self, text: str) -> IostatText:
        """Stops at the first line that is damaged; the report that it is in is not complete."""
        lines = text.splitlines()
        try:
            for line, content in enumerate(lines, 1):
                self._read_line(line, content.split())
            if self._is_cut(text):
                raise IostatFormatError(len(lines), "the input ends inside a report (was it cut?)")
            self._close()
        except IostatFormatError as error:
            return IostatText(tuple(self._reports), error, tuple(self._notes.values()))
        return IostatText(tuple(self._reports), None, tuple(self._notes.values()))

    def _is_cut(self, text: str) -> bool:
        """iostat ends each report with an empty line; without it, one with fewer devices than before is cut."""
        if not self._reports or text.endswith(("\n\n", "\n\r\n")):
            return False
        return self._draft.rows.keys() < {load.device for load in self._reports[-1].devices}

    def _read_line(self, line: int, tokens: list[str]) -> None:
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
        elif _is_heading(tokens):
            self._read_heading(line, tokens)
        elif self._columns:
            self._read_row(line, tokens)

    def _read_cpu(self, tokens: Sequence[str]) -> None:
        if self._draft.rows:
            self._close()
        named = zip(self._cpu_columns, tokens, strict=True)
        self._draft.cpu = _cpu({name: _number_in(name, token) or 0.0 for name, token in named})
        self._cpu_columns = ()

    def _read_heading(self, line: int, tokens: list[str]) -> None:
        self._name_last = tokens[-1] == "Device"
        self._columns = tuple(tokens[:-1] if self._name_last else tokens[1:])
        if not {"kB_read/s", "MB_read/s", "Blk_read/s"}.isdisjoint(self._columns):
            self._close()
            raise IostatFormatError(
                line, "iostat ran without -x: no waiting times, no queue (run: iostat -x)"
            )
        if self._columns in self._draft.headings:
            self._close()
        self._draft.headings.add(self._columns)

    def _read_row(self, line: int, tokens: list[str]) -> None:
        name, numbers = (tokens[-1], tokens[:-1]) if self._name_last else (tokens[0], tokens[1:])
        if _is_number(name) or not numbers or not all(map(_is_number, numbers)):
            return
        if len(self._columns) != len(numbers):
            raise IostatFormatError(
                line,
                f"the row of {name} has {len(numbers)} numbers, its heading names {len(self._columns)} columns",
            )
        named = zip(self._columns, numbers, strict=True)
        values = {column: _number_in(column, token) for column, token in named}
        known = self._draft.rows.get(name)
        if known is not None and not known.keys().isdisjoint(values):
            self._close()
            self._draft.headings.add(self._columns)
        self._draft.rows.setdefault(name, {}).update(values)
        self._draft.lines.setdefault(name, line)

    def _close(self) -> None:
        if self._draft.rows:
            self._reports.append(self._draft.report(len(self._reports) + 1, self._notes))
            self._draft = _Draft()


def _is_heading(tokens: Sequence[str]) -> bool:
    named = tokens[0].rstrip(":") == "Device" or tokens[-1] == "Device"
    return named and any(token.endswith("/s") for token in tokens)


def _is_number(token: str) -> bool:
    return _NUMBER.fullmatch(token) is not None


def _number_in(column: str, token: str) -> float | None:
    """A printed number; `-h` adds units, which stand for KiB whatever the column is called. None for nan."""
    suffix = token[-1]
    value = float(token.rstrip("kKMGTP%").replace(",", "."))
    if not math.isfinite(value):
        return None
    if suffix in _KIB_OF_SUFFIX:
        return value * _KIB_OF_SUFFIX[suffix] / (1024.0 if "MB/s" in column else 1.0)
    return value


def _read_json(text: str) -> IostatText:
    reports: list[IostatReport] = []
    notes: dict[str, str] = {}
    try:
        for host in json.loads(text)["sysstat"]["hosts"]:
            for index, entry in enumerate(host["statistics"]):
                reports.append(_json_draft(index == 0, entry).report(len(reports) + 1, notes))
    except json.JSONDecodeError as error:
        raise IostatFormatError(error.lineno, f"not JSON: {error.msg} (was iostat killed?)") from error
    except IostatFormatError:
        raise
    except MISFITS as error:
        wrong = f"report {len(reports) + 1} of the document is not of iostat -x -o JSON: {error!r}"
        raise IostatFormatError(1, wrong) from error
    return IostatText(tuple(reports), None, tuple(notes.values()))


def _json_draft(first: bool, entry: Mapping[str, Any]) -> _Draft:
    draft = _Draft(first_of_run=first)
    if "avg-cpu" in entry:
        draft.cpu = _cpu({name: float(value) for name, value in entry["avg-cpu"].items()})
    for disk in entry.get("disk", ()):
        columns = (key for key in disk if key != "disk_device")
        draft.rows[str(disk["disk_device"])] = {_json_column(key): _json_value(disk[key]) for key in columns}
    return draft


def _json_column(key: str) -> str:
    """JSON names percentages without their sign: `rrqm` is %rrqm, `rrqm/s` the rate."""
    return f"%{key}" if key in ("rrqm", "wrqm", "drqm", "util") else key


def _json_value(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _cpu(shares: Mapping[str, float]) -> CpuShares:
    return CpuShares(iowait=shares.get("iowait", 0.0), idle=shares.get("idle", 0.0))


def _device_load(name: str, row: Row, line: int) -> DeviceLoad:
    """One device's row in common units. Raises IostatFormatError when it lacks rate, amount or queue."""
    queue = row.get("aqu-sz", row.get("avgqu-sz"))
    reads, writes = row.get("r/s"), row.get("w/s")
    requests = row.get("tps") if reads is None or writes is None else reads + writes
    kib = _kib_per_s(row)
    if queue is None or requests is None or kib is None:
        missing = (
            "queue (aqu-sz)" if queue is None else "rate (r/s, w/s)" if requests is None else "amount (rkB/s)"
        )
        raise IostatFormatError(
            line, f"the row of {name} has no {missing}: is it of iostat -x, its lines whole as printed?"
        )
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
    )


def _has_sectors_as_kib(row: Row) -> bool:
    """Tells the JSON of sysstat 12.1.2 to 12.2.0 by the rate times the mean size of reads or writes (sysstat#264)."""
    for way in ("r", "w"):
        rate, size, kib = row.get(f"{way}/s"), row.get(f"{way}areq-sz"), row.get(f"{way}kB/s")
        if rate and size and kib:
            return math.isclose(kib, 2 * rate * size, rel_tol=0.05)
    return False


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
