"""`python -m bench.forecast [--traces folder] [--part NAME ...]`: tables, and figures in build/bench/forecast.json.

Parts: accuracy, operations, drawn (operations on drawn loads with a rhythm), generated (5,000 drawn cases and what they
cost), cost. Each leaves what it found in build/bench/forecast/, so a run can be made in pieces: the figures are of all
the parts that were ever run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console

from bench.forecast import generated
from bench.forecast.accuracy import Accuracy, TwoDays, accuracy_of, drawn_accuracy_of, two_days_of
from bench.forecast.bundle_size import bundle_figures
from bench.forecast.cost import cost_figures
from bench.forecast.figures import Figure
from bench.forecast.operations import LEAD_MINUTES, Operation, drawn_operation_of, operation_of
from bench.forecast.summary import (
    accuracy_figures,
    generated_figures,
    operation_figures,
    print_accuracy,
    print_figures,
    print_operations,
)
from bench.forecast.traces import ROOT, TRACES, kind_of, load_trace, trace_names

PROCESSES = 2
RESULT = ROOT / "build" / "bench" / "forecast.json"
PIECES = ROOT / "build" / "bench" / "forecast"
CASES = 5_000
DRAWN_SEEDS = (11, 12)
DRAWN_KINDS = ("web", "events", "office", "batch", "drift", "clean")


def main(arguments: Sequence[str]) -> int:
    """0 when every figure holds."""
    parser = argparse.ArgumentParser(prog="python -m bench.forecast", description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of CSV files")
    parser.add_argument(
        "--part", action="append", choices=sorted(PARTS), help="only this part; may be repeated"
    )
    parser.add_argument("--cases", type=int, nargs=2, default=(0, CASES), metavar=("FIRST", "END"))
    options = parser.parse_args(arguments)
    console = Console(width=150)
    os.nice(5)
    PIECES.mkdir(parents=True, exist_ok=True)
    for part in options.part or PARTS:
        PARTS[part](console, options)
    figures = summary(console, options.traces)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {RESULT}")
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


def _spread(console: Console, what: str, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """The results of all tasks, two at a time; says how far it is."""
    done = []
    with get_context("spawn").Pool(PROCESSES) as pool:
        for result in pool.imap(work, tasks, chunksize=max(1, len(tasks) // 200)):
            done.append(result)
            if len(done) % max(1, len(tasks) // 20) == 0:
                console.print(f"  {what}: {len(done):,} of {len(tasks):,}", style="dim")
    return [one for one in done if one is not None]


def _keep(part: str, rows: Iterable[Any]) -> None:
    (PIECES / f"{part}.json").write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


def _kept(part: str, kind: Callable[..., Any]) -> list[Any]:
    path = PIECES / f"{part}.json"
    return [kind(**row) for row in json.loads(path.read_text("utf-8"))] if path.exists() else []


def accuracy(console: Console, options: argparse.Namespace) -> None:
    """Bands on every trace and drawn load, and 48 hours of hourly means on the traces with a rhythm."""
    names = trace_names(options.traces)
    _keep("accuracy", _spread(console, "accuracy", accuracy_of, [(options.traces, name) for name in names]))
    each = [(kind, seed) for kind in DRAWN_KINDS for seed in DRAWN_SEEDS]
    _keep("drawn_accuracy", _spread(console, "accuracy, drawn loads", drawn_accuracy_of, each))
    rhythmic = [name for name in names if kind_of(load_trace(options.traces, name)) == "load"]
    _keep(
        "two_days", _spread(console, "two days", two_days_of, [(options.traces, name) for name in rhythmic])
    )


def operations(console: Console, options: argparse.Namespace) -> None:
    """Decisions on every trace that is long enough."""
    tasks = [
        (options.traces, name, minutes) for name in trace_names(options.traces) for minutes in LEAD_MINUTES
    ]
    _keep("operations", _spread(console, "operations", operation_of, tasks))


def drawn(console: Console, options: argparse.Namespace) -> None:
    """Decisions on drawn loads with a rhythm."""
    del options
    tasks = [
        (kind, seed, minutes) for kind in DRAWN_KINDS for seed in DRAWN_SEEDS for minutes in LEAD_MINUTES
    ]
    _keep("drawn", _spread(console, "drawn loads", drawn_operation_of, tasks))


def generated_part(console: Console, options: argparse.Namespace) -> None:
    """What each drawn case costs; cases that were run before are kept."""
    first, end = options.cases
    found = _spread(console, "generated loads", generated.priced, range(first, end))
    before = [one for one in _kept("generated", generated.Price) if not first <= one.number < end]
    _keep("generated", sorted([*before, *found], key=lambda each: each.number))


def cost(console: Console, options: argparse.Namespace) -> None:
    """Time, memory and size."""
    del console
    figures = {**cost_figures(options.traces, trace_names(options.traces)), **bundle_figures()}
    (PIECES / "cost.json").write_text(json.dumps(figures), encoding="utf-8")


PARTS: dict[str, Callable[[Console, argparse.Namespace], None]] = {
    "accuracy": accuracy,
    "operations": operations,
    "drawn": drawn,
    "generated": generated_part,
    "cost": cost,
}


def summary(console: Console, traces: Path) -> dict[str, Figure]:
    """The tables and figures of every part that was run."""
    del traces
    bands, ahead = _kept("accuracy", Accuracy), _kept("two_days", TwoDays)
    rows, more = _kept("operations", Operation), _kept("drawn", Operation)
    print_accuracy(console, bands)
    print_operations(console, [*rows, *more])
    path = PIECES / "cost.json"
    figures = {
        **accuracy_figures(bands, _kept("drawn_accuracy", Accuracy), ahead),
        **operation_figures(rows, more),
        **generated_figures(_kept("generated", generated.Price)),
        **(json.loads(path.read_text("utf-8")) if path.exists() else {}),
    }
    print_figures(console, figures)
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
