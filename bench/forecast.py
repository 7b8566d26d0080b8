"""How good the forecast and the decisions are, on the traces in data/traces: `python -m bench.forecast [folder]`.

Accuracy: 48 rolling origins per trace, evenly spaced from day 8, 14, 28 or 56 (by length) to a day before the
end; the last two thirds of every second one are scored in five horizon buckets, p95 pinball loss against last
week's value with online conformal bands. Operations: decisions every 15 minutes (or every step), about ten
replicas at the peak, lead times of 30, 70 and 180 minutes; short time against reactive scaling at equal cost, and
replica-hours against an oracle. Traces with a rhythm (`kind_of`) are judged together. Prints tables, writes
build/bench/forecast.json.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from peaker.domain.forecasting import LoadSeries, forecast_demand
from peaker.domain.forecasting.forecaster import rolling_forecasts
from rich.console import Console
from rich.table import Table

from bench.forecast_accuracy import (
    BUCKET_ENDS_MINUTES,
    Accuracy,
    accuracy_of,
    geometric,
    kind_of,
    pooled_coverage,
    ratios_at,
    trace_series,
)
from peaker_backtest.simulation import (
    Scenario,
    oracle_forecasts,
    short_at_equal_cost,
    simulate_forecasts,
    simulate_reactive,
    simulate_static,
)

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT / "data" / "traces"
RESULT = ROOT / "build" / "bench" / "forecast.json"
LEAD_MINUTES = (30, 70, 180)
REACTIVE_TARGETS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
REPLICAS_AT_PEAK = 10
PROCESSES = 2


@dataclass(frozen=True)
class Operation:
    """One trace at one lead time: share of time short, of reactive at equal cost, hours against the others."""

    trace: str
    lead_minutes: int
    short: float
    reactive_short: float
    hours_to_oracle: float
    hours_to_static: float
    oracle_short: float
    degraded: float
    kind: str

    @property
    def ratio(self) -> float:
        """Short time against reactive scaling that costs the same; both at zero counts as equal."""
        if self.reactive_short <= 0:
            return 1.0 if self.short <= 0 else 9.99
        return self.short / self.reactive_short


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else TRACES
    names = sorted(path.stem for path in folder.glob("*.csv") if path.stem != "manifest")
    console = Console(width=150)
    os.nice(5)
    console.print(f"[bold]Forecast bench[/bold]: {len(names)} traces in {folder}")
    with get_context("spawn").Pool(PROCESSES) as pool:
        accuracy = _collect(console, "accuracy", pool.imap(accuracy_of, [(folder, name) for name in names]))
        long_enough = [
            (folder, name) for name in names if _test_start(trace_series(folder, name)) is not None
        ]
        nested = _collect(console, "operations", pool.imap(_operations_of, long_enough))
    operations = [one for part in nested for one in part]
    figures = _figures(accuracy, operations) | _cost_figures(folder, names)
    _print_accuracy(console, accuracy)
    _print_operations(console, operations)
    _print_figures(console, figures)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {RESULT}")
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


def _collect(console: Console, what: str, results: Iterable[T]) -> list[T]:
    done = []
    for result in results:
        done.append(result)
        console.print(f"  {what}: {len(done)} traces done", style="dim")
    return done


# --- operations --------------------------------------------------------------------------------------------


def _test_start(series: LoadSeries) -> int | None:
    """First step of the operational test: the last 50 days of a long trace, from day 35, or from day 15."""
    day = series.steps_per_day
    days = len(series.values) / day
    if days > 150:
        return len(series.values) - 50 * day
    first = 35 * day if days >= 50 else 15 * day
    return first if len(series.values) - first >= day else None


def _operations_of(task: tuple[Path, str]) -> list[Operation]:
    folder, name = task
    series = trace_series(folder, name)
    first, last = _test_start(series), len(series.values)
    assert first is not None
    every = max(1, 900 // series.step_seconds)
    capacity = float(np.nanquantile(series.values, 0.999)) / REPLICAS_AT_PEAK
    scenarios = [
        Scenario(
            series=series,
            first=first,
            last=last,
            lead_steps=max(1, -(-minutes * 60 // series.step_seconds)),
            capacity_per_replica=capacity,
            decide_every_steps=every,
            low_checks_needed=1,
            minimum_lifetime_seconds=0.0,
        )
        for minutes in LEAD_MINUTES
    ]
    horizon = round(8 * 3600 / series.step_seconds)
    leads = [scenario.lead_seconds for scenario in scenarios]
    issued = list(rolling_forecasts(series, list(scenarios[0].decision_steps()), leads, horizon))
    return [
        _operation(name, minutes, scenario, [(at, each[i]) for at, each in issued], horizon)
        for i, (minutes, scenario) in enumerate(zip(LEAD_MINUTES, scenarios, strict=True))
    ]


def _operation(name: str, minutes: int, scenario: Scenario, issued: list, horizon: int) -> Operation:  # type: ignore[type-arg]
    peaker = simulate_forecasts("peaker", scenario, issued)
    oracle = simulate_forecasts("oracle", scenario, oracle_forecasts(scenario, horizon))
    reactive = [simulate_reactive(scenario, target) for target in REACTIVE_TARGETS]
    static = simulate_static(scenario)
    return Operation(
        trace=name,
        lead_minutes=minutes,
        short=peaker.short_share,
        reactive_short=short_at_equal_cost(peaker, reactive),
        hours_to_oracle=peaker.replica_hours / oracle.replica_hours,
        hours_to_static=peaker.replica_hours / static.replica_hours,
        oracle_short=oracle.short_share,
        degraded=float(np.mean([forecast.standing != "normal" for _, forecast in issued])),
        kind=kind_of(scenario.series),
    )


# --- figures -----------------------------------------------------------------------------------------------


def _figure(value: float, must: str, holds: bool) -> dict[str, object]:
    return {"value": round(value, 4), "must": must, "holds": bool(holds)}


def _figures(accuracy: list[Accuracy], operations: list[Operation]) -> dict[str, dict[str, object]]:
    pinball95 = geometric([ratio for one in accuracy for ratio in ratios_at(one, 0.95)])
    cover95, cover90 = pooled_coverage(accuracy, 0.95), pooled_coverage(accuracy, 0.9)
    figures = {
        "p95_pinball_to_last_week": _figure(pinball95, "<= 0.50", pinball95 <= 0.50),
        "pooled_coverage_p95": _figure(cover95, "0.93 to 0.97", 0.93 <= cover95 <= 0.97),
        "pooled_coverage_p90": _figure(cover90, "0.88 to 0.93", 0.88 <= cover90 <= 0.93),
    }
    for minutes, short_must, hours_must in zip(
        LEAD_MINUTES, (0.45, 0.32, 0.20), (1.27, 1.21, 1.20), strict=True
    ):
        group = [o for o in operations if o.lead_minutes == minutes and o.kind == "load"]
        if group:
            short = geometric([o.ratio for o in group])
            hours = geometric([o.hours_to_oracle for o in group])
            key = f"short_to_reactive_at_equal_cost_{minutes}_min"
            figures[key] = _figure(short, f"<= {short_must}", short <= short_must)
            figures[f"replica_hours_to_oracle_{minutes}_min"] = _figure(
                hours, f"<= {hours_must}", round(hours, 2) <= hours_must
            )
    for operation in operations:
        if operation.kind == "utilisation":
            key = f"{operation.trace}_short_to_reactive_{operation.lead_minutes}_min"
            figures[key] = _figure(operation.ratio, "<= 1.0", operation.ratio <= 1.0)
    return figures


def _cost_figures(folder: Path, names: Sequence[str]) -> dict[str, dict[str, object]]:
    """CPU and memory of one fit and forecast of 28 days of 5-minute data, in a process of its own."""
    name = next((name for name in names if trace_series(folder, name).step_seconds == 300), None)
    if name is None:
        return {}
    command = [sys.executable, "-m", "bench.forecast", "--cost", str(folder / f"{name}.csv")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'functions'}"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    cost = json.loads(done.stdout)
    bundle = _bundle_mb()
    return {
        "cpu_seconds_28_days": _figure(cost["cpu_seconds"], "<= 0.25", cost["cpu_seconds"] <= 0.25),
        "memory_mb": _figure(cost["memory_mb"], "<= 100", cost["memory_mb"] <= 100),
        "bundle_mb_unzipped": _figure(bundle, "<= 80", bundle <= 80),
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


def _bundle_mb() -> float:
    """Size of the function's dependencies and code, unzipped, installed for the deployed platform."""
    wanted = ROOT / "functions" / "requirements.txt"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            folder,
            "--only-binary=:all:",
        ]
        command += ["--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64"]
        command += ["--python-version", "3.13", "-r", str(wanted)]
        subprocess.run(command, check=True, capture_output=True)
        parts = [*Path(folder).rglob("*"), *(ROOT / "functions" / "peaker").rglob("*.py")]
        size = sum(p.stat().st_size for p in parts if p.is_file() and "/tests/" not in str(p))
    return size / 1e6


# --- tables ------------------------------------------------------------------------------------------------


def _print_accuracy(console: Console, accuracy: list[Accuracy]) -> None:
    table = Table(title="p95 pinball to last week's value (lower is better), coverage of p95 and p90")
    table.add_column("trace")
    for column in ("all", "30 min", "1 h", "3 h", "6 h", "24 h", "p95 covered", "p90 covered"):
        table.add_column(column, justify="right")
    for one in sorted(accuracy, key=lambda each: geometric(ratios_at(each, 0.95))):
        ratios = ratios_at(one, 0.95)
        blank = [""] * (len(BUCKET_ENDS_MINUTES) - len(ratios))
        cover = [pooled_coverage([one], level) for level in (0.95, 0.9)]
        cells = [f"{geometric(ratios):.2f}", *blank, *(f"{ratio:.2f}" for ratio in ratios)]
        table.add_row(one.trace, *cells, *(f"{share:.1%}" for share in cover))
    console.print(table)


def _print_operations(console: Console, operations: list[Operation]) -> None:
    table = Table(title="Decisions: time short, and replica-hours (kind load is the judged group)")
    table.add_column("trace")
    table.add_column("kind")
    for column in (
        "lead",
        "short",
        "reactive, same cost",
        "ratio",
        "hours / oracle",
        "hours / static",
        "degraded",
    ):
        table.add_column(column, justify="right")
    for one in operations:
        table.add_row(
            f"[bold]{one.trace}[/bold]" if one.kind == "load" else one.trace,
            one.kind,
            f"{one.lead_minutes} min",
            f"{one.short:.2%}",
            f"{one.reactive_short:.2%}",
            f"{one.ratio:.2f}",
            f"{one.hours_to_oracle:.2f}",
            f"{one.hours_to_static:.2f}",
            f"{one.degraded:.0%}",
        )
    console.print(table)


def _print_figures(console: Console, figures: dict[str, dict[str, object]]) -> None:
    table = Table(title="Figures")
    for column in ("figure", "value", "must", "holds"):
        table.add_column(column)
    for name, figure in figures.items():
        mark = "[green]yes[/green]" if figure["holds"] else "[red]no[/red]"
        table.add_row(name, str(figure["value"]), str(figure["must"]), mark)
    console.print(table)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--cost":
        measure_cost(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
