"""Columns of iostat's tables: their names and units, and a device's load made of a row."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from peaker.domain.storage.io_findings import DeviceLoad

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
_AGREES_WITHIN = 0.1
_LONGEST_REASON = 500

_NEW = "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz"
_NEW_DISCARDS = _NEW + " d/s dkB/s drqm/s %drqm d_await dareq-sz"


def _in_both_units(layout: str) -> tuple[str, str]:
    return layout, layout.replace("kB/s", "MB/s")


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
    15: _in_both_units(
        "r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util"
    ),
    14: _in_both_units(f"{_NEW} aqu-sz %util"),
    20: _in_both_units(f"{_NEW_DISCARDS} aqu-sz %util"),
    22: _in_both_units(f"{_NEW_DISCARDS} f/s f_await aqu-sz %util"),
}


# JSON of 12.1.2 to 12.2.0 has sectors in columns that are named after KiB.
_SECTORS_PER_KIB = (1.9, 2.1)
# Of a rate below this, two decimals are too few to tell.
_LEAST_RATE = 1.0


class IostatFormatError(ValueError):
    """The input is not the output of `iostat -x`. Carries the line (counted from 1) where that showed."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message if len(message) <= _LONGEST_REASON else f"{message[:_LONGEST_REASON]}..."
        super().__init__(f"line {line}: {self.message}")


def device_load(name: str, row: Row, line: int | None) -> DeviceLoad:
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
        merged_writes_per_s=row.get("wrqm/s"),
        svctm_ms=row.get("svctm") if completed else None,
        util_percent=row.get("%util"),
    )


def sectors_as_kib(row: Row) -> bool:
    """Mends the amounts of a row that are twice rate x request size: they are sectors. Tells whether there were any."""
    found = False
    for side in ("r", "w", "d"):
        rate, size, amount = (row.get(name) for name in (f"{side}/s", f"{side}areq-sz", f"{side}kB/s"))
        if rate is None or size is None or amount is None or rate < _LEAST_RATE or size <= 0:
            continue
        if _SECTORS_PER_KIB[0] <= amount / (rate * size) <= _SECTORS_PER_KIB[1]:
            row[f"{side}kB/s"] = rate * size
            found = True
    return found


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


def guess_columns(line: int, name: str, numbers: Sequence[str]) -> Columns:
    """The layout of a row without heading: by its number of columns, then by request size x rate = amount."""
    layouts = [tuple(layout.split()) for layout in _HEADLESS.get(len(numbers), ())]
    if not layouts:
        raise IostatFormatError(
            line, f"no heading, and no version of iostat -x prints {len(numbers)} numbers (row of {name})"
        )
    return max(layouts, key=lambda layout: _agreement(layout, numbers))


def _agreement(layout: Columns, numbers: Sequence[str]) -> float:
    """1 when the row's own arithmetic holds in this layout, less the further it is off; first layouts win ties."""
    row = {column: number_in(column, token) for column, token in zip(layout, numbers, strict=True)}
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


def is_column(token: str) -> bool:
    return all(name in _KNOWN for name in split_columns(token))


def heading_position(tokens: Sequence[str]) -> int | None:
    """Returns the position of the word Device in a heading; None when the line is no heading."""
    for index, token in enumerate(tokens):
        if token.rstrip(":") == "Device":
            others = [*tokens[:index], *tokens[index + 1 :]]
            if any(name in _KNOWN for other in others for name in split_columns(other)):
                return index
    return None


def split_columns(token: str) -> Columns:
    """The column names in one word of a heading, which may have run into each other."""
    names = _RUN_TOGETHER.findall(token)
    return tuple(names) if "".join(names) == token else (token,)


def is_number(token: str) -> bool:
    return _NUMBER.fullmatch(token) is not None


def number_in(column: str, token: str) -> float | None:
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
