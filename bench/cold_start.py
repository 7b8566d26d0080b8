"""How many processor seconds the cold start of a function takes, with the bundle's byte code and without it.

Each function of the catalogue is imported in a fresh interpreter from the unpacked bundle, as Lambda does: nothing is
written beside the sources. Its own calls to AWS are not in it. Whatever else the machine does only adds, so that the
least of several starts counts. `python -m bench.cold_start` writes
build/bench/cold-start.json.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from bench.figures import RESULTS, Figures, at_most, verdict, written
from peaker_contract.catalogue import FUNCTIONS
from stacks.constructs.local_bundling import Target, bundle_functions

MOST_SECONDS = 0.6
_ROUNDS = 5
_PROGRAM = (
    "import importlib, sys\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "module, name = sys.argv[2].rsplit('.', 1)\n"
    "getattr(importlib.import_module(module), name)\n"
)


def measure() -> Figures:
    """The slowest function counts."""
    with tempfile.TemporaryDirectory(prefix="cold-start-") as directory:
        compiled, bare = Path(directory) / "compiled", Path(directory) / "bare"
        with zipfile.ZipFile(bundle_functions(Target.this_machine())) as archive:
            archive.extractall(compiled)
        shutil.copytree(compiled, bare, ignore=shutil.ignore_patterns("__pycache__"))
        seconds = {one.name: _seconds(compiled, one.handler) for one in FUNCTIONS}
        slowest = max(FUNCTIONS, key=lambda one: seconds[one.name])
        without = _seconds(bare, slowest.handler)
    return {
        "cold start of the slowest function, processor seconds": {
            **at_most(seconds[slowest.name], MOST_SECONDS),
            "function": slowest.name,
            "median_of_all": round(statistics.median(seconds.values()), 2),
            "without_byte_code": round(without, 2),
        }
    }


def _seconds(tree: Path, handler: str) -> float:
    return min(_one_start(tree, handler) for _ in range(_ROUNDS))


def _one_start(tree: Path, handler: str) -> float:
    before = os.times()
    subprocess.run(
        [sys.executable, "-I", "-B", "-c", _PROGRAM, str(tree), handler],
        check=True,
        env={"PATH": "/usr/bin:/bin", "AWS_DEFAULT_REGION": "us-east-1"},
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    sys.exit(verdict(written(measure(), RESULTS / "cold-start.json")))
