"""Measures the forecast: `python -m bench.forecast [--traces folder] [--part NAME ...]`.

Parts: accuracy, operations, cost. Each prints its table and puts its figures into build/bench/forecast.json; those of
the other parts stay, so a run can be made in pieces.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console

from bench.figures import RESULTS, Figures, verdict, written
from bench.forecast.accuracy import accuracy_of, two_days_of
from bench.forecast.cost import measured_cost
from bench.forecast.figures import (
    accuracy_figures,
    cost_figures,
    operation_figures,
    print_accuracy,
    print_operations,
)
from bench.forecast.operations import operations_of
from bench.forecast.traces import TRACES, has_rhythm, load_trace, trace_names

PROCESSES = 2
RESULT = RESULTS / "forecast.json"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.forecast", description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of CSV files")
    parser.add_argument(
        "--part", action="append", choices=sorted(PARTS), help="only this part; may be repeated"
    )
    options = parser.parse_args(arguments)
    console = Console(width=150)
    os.nice(5)
    figures: Figures = {}
    for part in options.part or PARTS:
        figures = written(PARTS[part](console, options.traces), RESULT, part)
    return verdict(figures, console)


def _spread(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    with get_context("spawn").Pool(PROCESSES) as pool:
        return pool.map(work, tasks, chunksize=1)


def accuracy(console: Console, traces: Path) -> Figures:
    """Measure the bands on every trace, and 48 hours of hourly means on the traces with a rhythm."""
    names = trace_names(traces)
    bands = _spread(accuracy_of, [(traces, name) for name in names])
    print_accuracy(console, bands)
    return accuracy_figures(bands, _spread(two_days_of, [(traces, name) for name in _rhythmic(traces)]))


def operations(console: Console, traces: Path) -> Figures:
    """Replay the decisions on the traces with a rhythm."""
    each = _spread(operations_of, [(traces, name) for name in _rhythmic(traces)])
    rows = [row for rows in each for row in rows]
    print_operations(console, rows)
    return operation_figures(rows)


def cost(console: Console, traces: Path) -> Figures:
    """Measure the processor seconds and the memory of one check."""
    del console
    return cost_figures(measured_cost(traces))


def _rhythmic(traces: Path) -> list[str]:
    return [name for name in trace_names(traces) if has_rhythm(load_trace(traces, name))]


PARTS: dict[str, Callable[[Console, Path], Figures]] = {
    "accuracy": accuracy,
    "operations": operations,
    "cost": cost,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
