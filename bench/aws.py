"""Does Peaker hold where AWS is hard? `python -m bench.aws [--only PART …] [--times N]`; needs root.

`behaviours` runs every test that docs/aws-behaviours.md names, `volumes` asks the storage proof about volumes of which
2 % or more is cold, `traffic` lets replicas come, go and be undone behind a load balancer that is as late as AWS's,
`demo` and `suite` repeat `make demo` and `make test` beside a busy loop on each processor. The first three take about
an hour and a half, ten demonstrations four hours, five suites two. Writes build/bench/aws.json after each part.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.traffic.figures import FAILED_QUERIES

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "build" / "bench" / "aws.json"
BEHAVIOURS = ROOT / "docs" / "aws-behaviours.md"
NAMED_TEST = re.compile(r"`((?:packages/\w+/)?tests/[^`]*)`")
PROOF_ERRORS = ROOT / "tests" / "host" / "prove" / "test_proof_errors.py"
# Other volumes than those of PROOF_ERRORS.
FIRST_SEED, VOLUMES_OF_A_KIND = 10_000, 40
COLD_SHARES = (0.02, 0.03, 0.05, 0.2)

Figures = dict[str, dict[str, object]]


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.aws", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, help="these parts; their figures replace the old ones"
    )
    parser.add_argument("--times", type=int, help="demonstrations (default 10) and suites (default 5)")
    arguments = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("the local cloud needs root")
    figures: Figures = json.loads(RESULT.read_text()) if arguments.only and RESULT.is_file() else {}
    for name in arguments.only or PARTS:
        print(f"{name} ...", flush=True)
        figures.update(PARTS[name](arguments.times))
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    table = Table("figure", "value", "must", "holds")
    for name, figure in figures.items():
        table.add_row(name, str(figure["value"]), str(figure["must"]), "yes" if figure["holds"] else "NO")
    Console(width=130, highlight=False).print(table)
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


def behaviours(_: int | None) -> Figures:
    """Every behaviour names a test, and all of them pass."""
    rows = list(behaviour_rows(BEHAVIOURS.read_text(encoding="utf-8")))
    named = sorted({test for row in rows for test in NAMED_TEST.findall(row)})
    failed = broken([test for test in named if not test.startswith("tests/support")])
    for case in failed:
        print(f"failed: {case}")
    held = [row for row in rows if NAMED_TEST.search(row)]
    return {
        "behaviours of AWS with a test": _exactly(len(held), len(rows)),
        "their tests that fail": _exactly(len(failed), 0),
    }


def behaviour_rows(page: str) -> Iterator[str]:
    """The rows of the page's tables."""
    for line in page.splitlines():
        if line.startswith("| ") and not line.startswith(("| what ", "|---")):
            yield line


def broken(tests: Sequence[str]) -> list[str]:
    """The cases among these tests that fail, each with its reason; their whole output stays in build/bench/logs.

    Tests with one local cloud each run in processes of their own.
    """
    cases: list[str] = []
    for folder in sorted({test.split("/")[1] for test in tests}):
        chosen = [test for test in tests if test.split("/")[1] == folder]
        log, report = (_kept(f"behaviours-{folder}.{suffix}") for suffix in ("log", "xml"))
        report.unlink(missing_ok=True)
        returned = _logged((sys.executable, "-m", "pytest", "-q", *chosen, f"--junitxml={report}"), log)
        failed = list(_failures(report)) if report.is_file() else []
        if returned and not failed:
            # Such as for a name that is not there: a report without a case that failed says nothing.
            failed = [f"{folder}: pytest ended with {returned}, see {log}"]
        cases += failed
    return cases


def _failures(report: Path) -> Iterator[str]:
    for case in ElementTree.parse(report).iter("testcase"):
        for found in (*case.iter("failure"), *case.iter("error")):
            reason, *_ = found.get("message", "").splitlines() or [""]
            yield f"{case.get('classname')}::{case.get('name')}: {reason}"


def _kept(name: str) -> Path:
    logs = RESULT.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    return logs / name


def _logged(command: Sequence[str], path: Path) -> int:
    """The exit status of a command, whose output becomes this file."""
    with path.open("wb") as log:
        return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode


def volumes(_: int | None) -> Figures:
    """Verdicts on 200 simulated volumes, 2 to 20 % of whose live blocks are cold."""
    import pytest

    sys.path.insert(0, str(PROOF_ERRORS.parent))
    proof_errors = importlib.import_module(PROOF_ERRORS.stem)
    wrong = 0
    for kind in proof_errors.KINDS:
        for number in range(VOLUMES_OF_A_KIND):
            share = COLD_SHARES[math.floor(number * len(COLD_SHARES) / VOLUMES_OF_A_KIND)]
            with pytest.MonkeyPatch.context() as patch:
                wrong += proof_errors.verdict(patch, kind, FIRST_SEED + number, share) == "warm"
    count = len(proof_errors.KINDS) * VOLUMES_OF_A_KIND
    return {f"warm verdicts, {count} volumes with cold blocks": _exactly(wrong, 0)}


def traffic(_: int | None) -> Figures:
    """Failed queries of joins, retirements and undos; a bench that stopped half-way has none to show.

    It wants a machine without other work: the local cloud gets the processors' idle time only, behind the readers.
    """
    written, began = RESULT.parent / "traffic.json", time.time()
    subprocess.run([sys.executable, "-m", "bench.traffic", "--only", "rounds"], cwd=ROOT, check=False)
    if not written.is_file() or written.stat().st_mtime < began:
        return {FAILED_QUERIES: {"value": "not measured", "must": "<= 0", "holds": False}}
    measured: Figures = json.loads(written.read_text(encoding="utf-8"))
    return {FAILED_QUERIES: measured[FAILED_QUERIES]}


def demo(times: int | None) -> Figures:
    """Demonstrations that end with all of their checks."""
    return _beside_busy_loops("demonstrations beside busy loops", ("demo",), times or 10)


def suite(times: int | None) -> Figures:
    """Runs of every test."""
    return _beside_busy_loops("runs of all tests beside busy loops", ("test",), times or 5)


def _beside_busy_loops(name: str, target: tuple[str, ...], times: int) -> Figures:
    passed = 0
    with busy_loops():
        for number in range(1, times + 1):
            path = _kept(f"{target[0]}-{number}.log")
            returned = _logged(("make", *target), path)
            passed += returned == 0
            print(f"{number}/{times}: exit status {returned}, {path.relative_to(ROOT)}", flush=True)
    return {name: _exactly(passed, times)}


@contextmanager
def busy_loops() -> Iterator[None]:
    """A process that does nothing as fast as it can, for each processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _exactly(value: int, must: int) -> dict[str, object]:
    return {"value": value, "must": must, "holds": value == must}


PARTS: dict[str, Callable[[int | None], Figures]] = {
    "behaviours": behaviours,
    "volumes": volumes,
    "traffic": traffic,
    "demo": demo,
    "suite": suite,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
