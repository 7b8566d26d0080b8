"""Time and memory of one fit and forecast."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from peaker.domain.forecasting import LoadSeries, forecast_demand

from bench.forecast.figures import Figure, figure
from bench.forecast.traces import ROOT, load_trace


def cost_figures(folder: Path, names: Sequence[str]) -> dict[str, Figure]:
    """CPU and memory of one fit and forecast of a week from 28 days of 5-minute data, in a process of its own."""
    name = next((name for name in names if load_trace(folder, name).step_seconds == 300), None)
    if name is None:
        return {}
    command = [sys.executable, "-m", "bench.forecast.cost", str(folder / f"{name}.csv")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    cost = json.loads(done.stdout)
    return {
        "seven_days_cpu_seconds": figure(cost["cpu_seconds"], "<= 0.5", cost["cpu_seconds"] <= 0.5),
        "seven_days_memory_mb": figure(cost["memory_mb"], "<= 150", cost["memory_mb"] <= 150),
    }


def measure_cost(path: str) -> None:
    """Print the CPU seconds and the peak memory of a fit and forecast.

    The first loads numpy; the best of the next three counts, since other processes share the caches.
    """
    points = np.array(
        [float(row["value"] or "nan") for row in csv.DictReader(Path(path).read_text().splitlines())]
    )
    series = LoadSeries(0.0, 300, np.resize(points[np.isfinite(points)], 28 * 288))
    forecast_demand(series, 4200.0)
    cpu = min(_cpu_seconds_of_one(series) for _ in range(3))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"cpu_seconds": cpu, "memory_mb": peak}))


def _cpu_seconds_of_one(series: LoadSeries) -> float:
    began = time.process_time()
    forecast_demand(series, 4200.0)
    return time.process_time() - began


if __name__ == "__main__":
    measure_cost(sys.argv[1])
