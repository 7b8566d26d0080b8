"""iostat's JSON is read report by report, also where sysstat wrote a document that is no JSON.

Before 12.1.4 iostat does not close the document when SIGINT ends it; 12.1.4 writes a lone comma before the first
report. 12.1.2 to 12.2.0 give sectors as `rkB/s` and `wkB/s`. A row may lack columns that another row has.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NEXT_REPORT = re.compile(r"[\s,]*\{")
_NEEDED = ("r/s", "w/s", "rkB/s", "r_await", "rareq-sz", "aqu-sz", "util")
# Of a rate below this, two decimals are too few to tell.
_LEAST_RATE = 1.0
_SECTORS = (1.9, 2.1)


def device_rows(document: str) -> List[Dict[str, Any]]:
    """The rows of all complete reports that have every column, their amounts in KiB.

    `sectors` is in a row whose amounts came in sectors.
    """
    rows = [row for report in _complete_reports(document) for row in report["disk"]]
    return [_in_kib(row) for row in rows if all(row.get(name) is not None for name in _NEEDED)]


def _complete_reports(document: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for start in _STATISTICS.finditer(document):
        at = start.end()
        begin = _NEXT_REPORT.match(document, at)
        while begin is not None:
            try:
                report, at = decoder.raw_decode(document, begin.end() - 1)
            except (ValueError, RecursionError):
                return
            yield report
            begin = _NEXT_REPORT.match(document, at)


def _in_kib(row: Dict[str, Any]) -> Dict[str, Any]:
    product = row["r/s"] * row["rareq-sz"]
    if row["r/s"] < _LEAST_RATE or product <= 0:
        return row
    low, high = _SECTORS
    if low <= row["rkB/s"] / product <= high:
        return dict(row, sectors=True, **{"rkB/s": product})
    return row
