"""How much of each room the cheap tests run, lines and branches: `make coverage`.

The tests of decisions, of the host package and of whole workflows on virtual time, in one process. Commands that those
tests start as processes of their own count as not run. What is missing, line by line: build/coverage/html/index.html.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "coverage"
TESTS = ("tests/unit", "tests/host", "tests/faults")
SOURCES = ("functions", "host", "cli")


@dataclass(frozen=True)
class Share:
    """What there is and what was run: statements and branches together, as coverage counts them."""

    there: int = 0
    run: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.there + other.there, self.run + other.run)

    def __str__(self) -> str:
        share = f"{self.run / self.there:6.1%}" if self.there else "  none"
        return f"{share}  {self.there - self.run:6,} of {self.there:6,}"


def rooms(report: Mapping[str, Any]) -> dict[str, Share]:
    """The folders of coverage's JSON report with their shares, by name."""
    found: defaultdict[str, Share] = defaultdict(Share)
    for path, file in report["files"].items():
        figures = file["summary"]
        found[Path(path).parent.as_posix()] += Share(
            figures["num_statements"] + figures["num_branches"],
            figures["covered_lines"] + figures["covered_branches"],
        )
    return dict(sorted(found.items()))


def table(report: Mapping[str, Any]) -> str:
    """A line per room, one per package, one for all."""
    found = rooms(report)
    lines = [f"{share}  {room}" for room, share in found.items() if share.there]
    for top in (*SOURCES, "peaker_contract"):
        shares = [share for room, share in found.items() if room.split("/")[0] == top]
        lines.append(f"{sum(shares, Share())}  {top}, all of it")
    lines.append(f"{sum(found.values(), Share())}  all")
    return "\n".join(["   run   not run of all", *lines])


def main() -> int:
    """0 when the tests pass, however much they run."""
    command = [sys.executable, "-m", "coverage"]
    tests = subprocess.run([*command, "run", "-m", "pytest", *(sys.argv[1:] or TESTS)], cwd=ROOT, check=False)
    subprocess.run([*command, "json", "-q"], cwd=ROOT, check=True)
    subprocess.run([*command, "html", "-q"], cwd=ROOT, check=True)
    print(table(json.loads((FOLDER / "coverage.json").read_text(encoding="utf-8"))))
    print(f"line by line: {FOLDER / 'html' / 'index.html'}")
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main())
