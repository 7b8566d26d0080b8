"""A second look at the headline of every trace in data/traces: `python -m bench.backtest`. About ten minutes.

Each trace is replayed over the usual 28 days by the `peaker backtest` command, and its figures and claims are computed
again from the course in its JSON (tests/simulation/test_backtest_second_look.py). Prints a table, writes
build/bench/backtest.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "build" / "bench" / "backtest.json"
SECOND_LOOK = "tests/simulation/test_backtest_second_look.py"
REPLAYED_DAYS = "28"


def main() -> int:
    """0 when no headline is contradicted."""
    looks = second_looks()
    table = Table("trace", "second look")
    for trace, contradiction in looks.items():
        table.add_row(trace, contradiction or "agrees")
    Console().print(table)
    contradicted = sum(map(bool, looks.values()))
    figures = {
        "traces looked at": {"value": len(looks), "must": 13, "holds": len(looks) >= 13},
        "headlines contradicted": {"value": contradicted, "must": 0, "holds": contradicted == 0},
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


def second_looks() -> dict[str, str]:
    """What contradicts each trace's headline; empty where nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", SECOND_LOOK, "-k", "no_headline", f"--junitxml={report}"],
            cwd=ROOT,
            env={**os.environ, "SECOND_LOOK_DAYS": REPLAYED_DAYS},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        cases = ElementTree.parse(report).iter("testcase")
        return {trace_of(case): contradiction(case) for case in cases}


def trace_of(case: ElementTree.Element) -> str:
    """The trace's name, from the test's: "test_...[tw_ko]"."""
    return case.get("name", "").partition("[")[2].rstrip("]")


def contradiction(case: ElementTree.Element) -> str:
    """The first line of what a test that failed says."""
    found = [*case.iter("failure"), *case.iter("error")]
    return (found[0].get("message") or "failed").split("\n")[0] if found else ""


if __name__ == "__main__":
    sys.exit(main())
