"""What Peaker does when anything fails. Writes build/bench/faults.json after each part.

Examples:
  python -m bench.faults                      all parts
  python -m bench.faults --only matrix        one part; its figures replace the old ones
  python -m bench.faults --cell scale_out/RegisterReplica/endpoint.register/late/stop
                                              one cell of the matrix again, with all that was called
  python -m bench.faults --seed 17            one plan of the soak again, shortened if it fails
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import figures
from bench.faults.cells import cells, named
from bench.faults.interleavings import interleavings
from bench.faults.matrix import Result, run_cell
from bench.faults.outages import outages
from bench.faults.processes import each
from bench.faults.soak import PLANS, run_seed, shortened, soak
from bench.faults.sweep_looks import looks_of_others, oldest_look_minutes
from bench.figures import Figures
from bench.model.check import every_order_of_events

ROOT = Path(__file__).resolve().parents[2]
RESULT = figures.RESULTS / "faults.json"
LEAST_CELLS = 2000
KINDS = {
    "orphan": "orphans",
    "double": "doubles",
    "unproven": "unproven replicas in service",
    "bounds": "floor or ceiling breaches",
    "base": "base replicas or sources touched",
    "ledger": "ledger rows that do not agree with the world",
    "lease": "leases that are not free",
}


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, help="these parts; their figures replace the old ones"
    )
    parser.add_argument("--cell", help="run one cell of the matrix again and tell what happened")
    parser.add_argument("--seed", type=int, help="run one plan of the soak again; shortened if it fails")
    arguments = parser.parse_args(argv)
    if arguments.cell:
        return replay(parser, arguments.cell)
    if arguments.seed is not None:
        return replay_plan(arguments.seed)
    told: Figures = {}
    for name in arguments.only or PARTS:
        print(f"{name} ...", flush=True)
        told = figures.written(PARTS[name](), RESULT)
    return figures.verdict(told)


def matrix() -> Figures:
    """Every cell."""
    chosen = list(cells())
    failed: list[Result] = []
    kinds: Counter[str] = Counter()
    longest = 0.0
    for result in each(run_cell, chosen, "cells"):
        longest = max(longest, result.lease_seconds)
        if not result.passed:
            failed.append(result)
            kinds.update({finding.kind for finding in result.findings})
            tell(result)
    return {
        "matrix cells run": figures.at_least(len(chosen), LEAST_CELLS),
        "matrix cells passed": figures.exactly(len(chosen) - len(failed), len(chosen)),
        **{f"matrix: cells with {text}": figures.exactly(kinds[kind], 0) for kind, text in KINDS.items()},
        "longest minutes from a stop to a free lease": figures.at_most(longest / 60, 15),
    }


def tell(result: Result) -> None:
    """What is wrong with a cell, and how to run it again."""
    why = "; ".join(f"{one.kind}: {one.text}" for one in result.findings) or "its fault did not come"
    print(f"\nFAILED {result.cell.name} (seed {result.cell.seed}): {why}\n  {', '.join(result.ends)}")
    print(f"  again: python -m bench.faults --cell '{result.cell.name}'", flush=True)


def replay(parser: argparse.ArgumentParser, name: str) -> int:
    """One cell again."""
    try:
        cell = named(name)
    except LookupError as unknown:
        parser.error(str(unknown.args[0]))
    result = run_cell(cell)
    for line in result.story:
        print(line)
    print(f"{cell.name}, after {cell.situation!r}: {', '.join(result.ends)}")
    if not result.passed:
        tell(result)
    return 0 if result.passed else 1


def replay_plan(seed: int) -> int:
    """One plan again, without what its failure does not need."""
    outcome = run_seed(seed)
    if outcome.findings:
        print(f"seed {seed} fails; without what the failure does not need:", flush=True)
        outcome = shortened(outcome)
    for line in (*outcome.events, *(f"{one.kind}: {one.text}" for one in outcome.findings)):
        print(line)
    return 1 if outcome.findings else 0


def forbidden_calls() -> Figures:
    """Every forbidden call of every role (tests/deployed); it lays down how many were tried and refused itself."""
    command = [sys.executable, "-m", "pytest", "tests/deployed", "-m", "every_state"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return {"forbidden calls that went through, or could not be tried": figures.exactly(done.returncode, 0)}


def hostile_input() -> Figures:
    """What others write, against every entry point (tests/hostile); it lays its figures down itself."""
    done = subprocess.run([sys.executable, "-m", "tests.hostile"], cwd=ROOT, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"tests.hostile ended with status {done.returncode}")
    told = figures.written({}, RESULT)
    return {name: figure for name, figure in told.items() if name.startswith("fuzz cases")}


def sweep_looks() -> Figures:
    """200 clusters, three of which do not answer, for an hour."""
    looks = looks_of_others(clusters=200, silent=3, seconds=3600.0)
    return {"sweep_oldest_look_minutes": figures.at_most(oldest_look_minutes(looks, until=3600.0), 10)}


PARTS: Mapping[str, Callable[[], Figures]] = {
    "matrix": matrix,
    "outages": outages,
    "soak": lambda: soak(range(PLANS)),
    "sweep": sweep_looks,
    "model": every_order_of_events,
    "interleavings": interleavings,
    "refusals": forbidden_calls,
    "hostile": hostile_input,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
