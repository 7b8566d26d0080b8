"""Processor seconds and memory of one check's forecast."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peaker.domain.forecasting import Forecaster, LoadSeries
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS

from bench.forecast.traces import ROOT, load_trace, trace_names

_STEP_SECONDS = 300
_REPEATS = 5


def measured_cost(folder: Path) -> dict[str, float]:
    """Measure a forecast of a week from the kept history of 5-minute points, in a process of its own."""
    name = next(
        name for name in trace_names(folder) if load_trace(folder, name).step_seconds == _STEP_SECONDS
    )
    command = [sys.executable, "-m", "bench.forecast.cost", str(folder), name]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    cost: dict[str, float] = json.loads(done.stdout)
    return cost


def print_cost(folder: str, name: str) -> None:
    """Print the median of five; the first run, which loads numpy, does not count."""
    known = load_trace(Path(folder), name).values
    count = KEPT_HISTORY_DAYS * 86_400 // _STEP_SECONDS
    series = LoadSeries(0.0, _STEP_SECONDS, np.resize(known[np.isfinite(known)], count))
    Forecaster(series).at_the_end(4200.0)
    seconds = float(np.median([_cpu_seconds(series) for _ in range(_REPEATS)]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"cpu_seconds": seconds, "memory_mb": peak}))


def _cpu_seconds(series: LoadSeries) -> float:
    began = time.process_time()
    Forecaster(series).at_the_end(4200.0)
    return time.process_time() - began


if __name__ == "__main__":
    print_cost(*sys.argv[1:])
