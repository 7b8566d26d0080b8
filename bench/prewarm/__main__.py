"""How fast a cold volume becomes warm, by what is done to it: `python -m bench.prewarm [--quick] [--only PART ...]`.

Runs on the local cloud's cold volumes (3000 IOPS, 125 MiB/s, 30 ms per fetched block, 32 at once); needs root. The
methods are compared on one machine in one run: medians and their ratios, printed as tables. Each part is written to
build/bench/prewarm.json as soon as it has ended, so that parts can be measured alone; all take about 45 minutes.
--quick (one repeat, 4 GiB XFS only, fewer methods, small database) writes prewarm-quick.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from peaker_host.blocks.ranges import total
from rich.console import Console
from rich.table import Table

from bench.prewarm.cold_volumes import BLOCK, MIB, ROOT, Content, Laboratory
from bench.prewarm.database import (
    BACKGROUND_MIB_PER_S,
    CLIENTS,
    FEW,
    FEW_CLIENTS,
    STRATEGIES,
    Database,
    DatabaseBench,
    TimeToWarmReads,
)
from bench.prewarm.engine import CpuCost, KillCost, Verdicts, cpu_cost, kill_cost, verdicts
from bench.prewarm.knee import KneeError, knee_errors, samples_rightly_diagnosed
from bench.prewarm.methods import METHODS, ONE_AT_A_TIME, Warming, warm
from localcloud.dataplane import VolumeLimits

RESULTS = ROOT / "build" / "bench"
CAP_MIB_PER_S = 125
PROVISIONED_MIB_PER_S = 250
PROVISIONED = VolumeLimits(throughput_mib_per_s=PROVISIONED_MIB_PER_S)
HEADLINE = Content("4 GiB, 22 % used", 4, 0.40, 0.22, "xfs")
HEADLINE_METHODS = ("dd buffered", "dd direct", "fio line", "used only")
SLOW_LANE, FAST_LANE = 8, 3
NICENESS = -10

Figures = dict[str, dict[str, object]]
Warmings = Mapping[str, Sequence[Warming]]


@dataclass(frozen=True)
class Scope:
    """How much is measured."""

    repeats: int
    contents: tuple[tuple[Content, int], ...]
    methods: tuple[str, ...]
    table_gib: float
    strategies: tuple[str, ...]
    database_repeats: int
    kills: int
    kill_content: Content
    verdict_volumes: int
    knee_iops: tuple[int, ...]
    file_name: str


def _matrix(size_gib: int, used_share: float, repeats: int) -> tuple[tuple[Content, int], ...]:
    label = f"{size_gib} GiB, {used_share:.0%} used"
    return tuple(
        (Content(f"{label}, {kind}", size_gib, used_share + 0.1, used_share, kind), repeats)
        for kind in ("xfs", "ext4")
    )


LARGE = Content("16 GiB, 30 % used, xfs", 16, 0.35, 0.30, "xfs")
# One repeat where a method takes minutes: thousands of fetches average out within it. The longest come first.
FULL = Scope(
    repeats=3,
    contents=(*_matrix(16, 0.3, 1), *_matrix(4, 0.4, 3)),
    methods=METHODS,
    table_gib=5.0,
    strategies=STRATEGIES,
    database_repeats=2,
    kills=20,
    kill_content=LARGE,
    verdict_volumes=50,
    knee_iops=(200, 1000, 2000),
    file_name="prewarm.json",
)
QUICK = Scope(
    repeats=1,
    contents=_matrix(4, 0.4, 1)[:1],
    methods=("cat", "fio line", "block list", "used only", "hot first"),
    table_gib=1.5,
    strategies=STRATEGIES[1:5],
    database_repeats=1,
    kills=5,
    kill_content=_matrix(4, 0.4, 1)[0][0],
    verdict_volumes=10,
    knee_iops=(1000,),
    file_name="prewarm-quick.json",
)


class Progress:
    """Says what is going on, with the time since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()

    def __call__(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._started:6.0f} s  {text}[/dim]", highlight=False)


@dataclass(frozen=True)
class Bench:
    """What a part needs."""

    scope: Scope
    console: Console
    say: Progress


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.prewarm", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat, 4 GiB only")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    arguments = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("volumes and hosts need root")
    # Other work on the machine would be measured too.
    os.nice(NICENESS)
    console = Console(width=130)
    bench = Bench(QUICK if arguments.quick else FULL, console, Progress(console))
    chosen = arguments.only or list(PARTS)
    measured: Figures = {}
    for number, name in enumerate(chosen, 1):
        bench.say(f"part {number} of {len(chosen)}: {name}")
        found = PARTS[name](bench)
        measured.update(found)
        _keep(bench.scope, name, found)
    _print_figures(console, measured)
    console.print(f"written: {(RESULTS / bench.scope.file_name).relative_to(ROOT)}")
    return 0 if all(figure["holds"] for figure in measured.values()) else 1


def _keep(scope: Scope, part: str, found: Figures) -> None:
    """Put a part's figures in place of its earlier ones; the other parts' stay."""
    path = RESULTS / scope.file_name
    kept: Figures = json.loads(path.read_text()) if path.exists() else {}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    figures = {name: figure for name, figure in kept.items() if figure.get("part", part) != part}
    figures.update({name: {**figure, "part": part, "measured": now} for name, figure in found.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")


# --- parts -------------------------------------------------------------------------------------------------


def _cpu(bench: Bench) -> Figures:
    cost = cpu_cost(max(3, bench.scope.repeats), bench.say)
    _print_cpu(bench.console, cost)
    return _cpu_figures(cost)


def _ratios(bench: Bench) -> Figures:
    """What the volume's cap bounds runs alone; dd, which waits for the store, beside itself."""
    say = bench.say
    with Laboratory() as lab:
        snapshot = lab.fill(HEADLINE)
        say(f"{HEADLINE.name}: {lab.describe(snapshot, 'xfs')}")
        used_bytes = total(lab.used_blocks(snapshot, "xfs")) * BLOCK
        found: dict[str, list[Warming]] = {name: [] for name in HEADLINE_METHODS}
        for number in range(bench.scope.repeats):
            for method in ("fio line", "used only"):
                found[method].append(_one(lab, snapshot, HEADLINE, method, number, say))
        with ThreadPoolExecutor(2 * bench.scope.repeats) as pool:
            jobs = [
                (method, pool.submit(_one, lab, snapshot, HEADLINE, method, number, say))
                for number in range(bench.scope.repeats)
                for method in ("dd buffered", "dd direct")
            ]
            for method, job in jobs:
                found[method].append(job.result())
        provisioned = {
            method: [_one(lab, snapshot, HEADLINE, method, 0, say, PROVISIONED)]
            for method in ("dd direct", "used only")
        }
    _print_methods(bench.console, HEADLINE.name, found)
    _print_methods(bench.console, f"{HEADLINE.name}, {PROVISIONED_MIB_PER_S} MiB/s", provisioned)
    return _headline_figures(found, used_bytes) | _provisioned_figures(provisioned)


def _verdicts(bench: Bench) -> Figures:
    with Laboratory() as lab:
        snapshot = lab.fill(HEADLINE)
        return _verdict_figures(verdicts(lab, snapshot, bench.scope.verdict_volumes, bench.say))


def _matrix_of_methods(bench: Bench) -> Figures:
    with Laboratory() as lab:
        _matrix_tables(lab, bench.scope, bench.console, bench.say)
    return {}


def _kills(bench: Bench) -> Figures:
    with Laboratory() as lab:
        snapshot = lab.fill(bench.scope.kill_content)
        return _kill_figures(kill_cost(lab, snapshot, bench.scope.kills, bench.say))


def _mysql(bench: Bench) -> Figures:
    with Laboratory() as lab, DatabaseBench(lab) as hosts:
        database = hosts.build(bench.scope.table_gib, bench.say)
        times = _database(hosts, database, bench.scope, bench.say)
    _print_database(bench.console, bench.scope, times)
    return _database_figures(times)


def _knee(bench: Bench) -> Figures:
    with Laboratory() as lab:
        errors = knee_errors(lab, bench.scope.knee_iops, bench.say)
    _print_knee(bench.console, errors)
    return {"knee against Little's law, largest error": _at_most(max(one.error for one in errors), 0.1)}


def _samples(bench: Bench) -> Figures:
    right, samples = samples_rightly_diagnosed()
    return {"recorded iostat samples rightly diagnosed": _figure(right, f"{samples}", right == samples)}


PARTS: dict[str, Callable[[Bench], Figures]] = {
    "cpu": _cpu,
    "samples": _samples,
    "ratios": _ratios,
    "knee": _knee,
    "kills": _kills,
    "verdicts": _verdicts,
    "database": _mysql,
    "matrix": _matrix_of_methods,
}


def _matrix_tables(lab: Laboratory, scope: Scope, console: Console, say: Progress) -> None:
    """Every method on every content, each run on a volume of its own.

    Several that wait for the store run beside a few that the volume's cap bounds; the machine has room for both.
    """
    snapshots = {}
    for content, _ in scope.contents:
        snapshots[content] = lab.fill(content)
        say(f"{content.name}: {lab.describe(snapshots[content], content.filesystem)}")
    jobs: dict[Content, dict[str, list[Future[Warming]]]] = {}
    with ThreadPoolExecutor(SLOW_LANE) as slow, ThreadPoolExecutor(FAST_LANE) as fast:
        for content, repeats in scope.contents:
            jobs[content] = {name: [] for name in scope.methods}
            for number in range(repeats):
                for method in scope.methods:
                    lane = slow if method in ONE_AT_A_TIME else fast
                    job = lane.submit(_one, lab, snapshots[content], content, method, number, say)
                    jobs[content][method].append(job)
    for content, methods in jobs.items():
        found = {method: [job.result() for job in waiting] for method, waiting in methods.items()}
        _print_methods(console, content.name, found)
        lab.store.delete_snapshot(snapshots[content])


def _one(
    lab: Laboratory,
    snapshot: str,
    content: Content,
    method: str,
    number: int,
    say: Progress,
    limits: VolumeLimits | None = None,
) -> Warming:
    found = warm(lab, snapshot, content.filesystem, method, limits)
    say(f"{content.name}: {method}, run {number + 1}: {found.seconds:.1f} s")
    return found


def _database(
    hosts: DatabaseBench, database: Database, scope: Scope, say: Progress
) -> dict[str, list[TimeToWarmReads]]:
    times: dict[str, list[TimeToWarmReads]] = {name: [] for name in scope.strategies}
    for _ in range(scope.database_repeats):
        for strategy in scope.strategies:
            times[strategy].append(hosts.measure(database, strategy, say))
    return times


# --- figures -----------------------------------------------------------------------------------------------


def _figure(value: float, must: str, holds: bool, **more: object) -> dict[str, object]:
    return {"value": round(value, 4), "must": must, "holds": holds, **more}


def _at_most(value: float, limit: float, **more: object) -> dict[str, object]:
    return _figure(value, f"<= {limit:.4g}", value <= limit, **more)


def _median_seconds(found: Iterable[Warming]) -> float:
    return statistics.median(one.seconds for one in found)


def _headline_figures(found: Warmings, used_bytes: int) -> Figures:
    used = _median_seconds(found["used only"])
    rate = statistics.median(one.engine_mib_per_s or 0.0 for one in found["used only"])
    read = statistics.median(one.bytes_read for one in found["used only"])
    share = rate / CAP_MIB_PER_S
    return {
        "used only against dd direct": _at_most(used / _median_seconds(found["dd direct"]), 1 / 12),
        "used only against dd buffered": _at_most(used / _median_seconds(found["dd buffered"]), 1 / 12),
        "used only against fio line": _at_most(used / _median_seconds(found["fio line"]), 1 / 3.5),
        "throughput against the cap": _figure(share, ">= 0.95", share >= 0.95),
        "bytes read against used and present": _at_most(read / used_bytes, 1.05),
    }


def _provisioned_figures(found: Warmings) -> Figures:
    """At the baseline the cap holds the engine back, and dd, which waits for two blocks at a time, hardly."""
    ratio = _median_seconds(found["used only"]) / _median_seconds(found["dd direct"])
    return {
        f"the same at {PROVISIONED_MIB_PER_S} MiB/s provisioned: against dd direct": _at_most(ratio, 1 / 12)
    }


def _cpu_figures(cost: CpuCost) -> Figures:
    rate = min(cost.engine_gb_per_s, cost.fio_gb_per_s)
    return {
        "engine CPU against fio": _at_most(
            cost.ratio, 1.5, includes="process starts", gb_per_s=round(rate, 2)
        ),
    }


def _kill_figures(cost: KillCost) -> Figures:
    return {f"blocks read twice after {cost.kills} kills": _at_most(cost.share, 0.02)}


def _verdict_figures(found: Verdicts) -> Figures:
    name = f"called warm although cold, of {found.volumes} volumes"
    return {
        name: _at_most(
            found.wrongly_warm,
            0,
            cold=found.cold,
            rightly_not_warm=found.rightly_not_warm,
            warm=found.warm,
            unknown=found.unknown,
        )
    }


def _database_figures(times: Mapping[str, Sequence[TimeToWarmReads]]) -> Figures:
    median = {name: statistics.median(one.warm_seconds for one in found) for name, found in times.items()}
    rate = {name: statistics.median(one.warm_rate for one in found) for name, found in times.items()}
    hot, few = median["hot first"], (f"hot first{FEW}", f"no prewarm{FEW}")
    figures = (
        {}
        if few[0] not in times
        else {
            "the same with few clients: hot first against no prewarm": _at_most(
                median[few[0]] / median[few[1]], 0.6
            )
        }
    )
    if "warm volume" in times:
        beside = rate["hot first"] / rate["warm volume"]
        figures["reads beside the background prewarm against a warm volume"] = _figure(
            beside, ">= 0.9", beside >= 0.9
        )
    return {
        **figures,
        "create to warm reads: hot first against used first": _at_most(hot / median["used first"], 0.5),
        "create to warm reads: hot first against no prewarm": _at_most(hot / median["no prewarm"], 0.6),
        "create to warm reads: hot first against fio first": _at_most(hot / median["fio first"], 0.35),
    }


# --- tables ------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def _print_methods(console: Console, name: str, found: Warmings) -> None:
    table = _table(
        f"{name}: until the method has ended", "method", "runs", "seconds", "least", "most", "GiB read",
        "blocks still cold", "CPU s", "hot set warm after",
    )  # fmt: skip
    for method, runs in found.items():
        hot = [one.hot_warm_seconds for one in runs if one.hot_warm_seconds is not None]
        table.add_row(
            method,
            str(len(runs)),
            f"{_median_seconds(runs):.1f}",
            f"{min(one.seconds for one in runs):.1f}",
            f"{max(one.seconds for one in runs):.1f}",
            f"{statistics.median(one.bytes_read for one in runs) / MIB / 1024:.2f}",
            f"{statistics.median(one.blocks_cold_after for one in runs):.0f}",
            f"{statistics.median(one.cpu_seconds for one in runs):.1f}",
            f"{statistics.median(hot):.1f} s" if hot else "",
        )
    console.print(table)


def _print_cpu(console: Console, cost: CpuCost) -> None:
    table = _table("CPU on an uncapped device in memory", "reader", "CPU s per GiB", "of it start", "GB/s")
    table.add_row("engine", f"{cost.engine:.3f}", f"{cost.engine_start:.3f}", f"{cost.engine_gb_per_s:.1f}")
    table.add_row("fio line", f"{cost.fio:.3f}", f"{cost.fio_start:.3f}", f"{cost.fio_gb_per_s:.1f}")
    table.add_row("ratio", f"{cost.ratio:.2f}", f"{cost.ratio_without_starts:.2f} without", "")
    console.print(table)


def _print_knee(console: Console, errors: Sequence[KneeError]) -> None:
    table = _table(
        "Knee, random 16 KiB reads", "capped at IOPS", "await ms", "readers", "by Little's law", "error"
    )
    for one in errors:
        table.add_row(
            str(one.iops), f"{one.await_ms:g}", f"{one.readers:.2f}", f"{one.expected:g}", f"{one.error:.1%}"
        )
    console.print(table)


def _print_database(console: Console, scope: Scope, times: Mapping[str, Sequence[TimeToWarmReads]]) -> None:
    table = _table(
        f"From volume creation, {scope.table_gib:g} GiB table, hot tenth, {CLIENTS} clients (few: {FEW_CLIENTS}), "
        f"background {BACKGROUND_MIB_PER_S} MiB/s (seconds)",
        "strategy", "runs", "MySQL may start", "it answers", "90 % of warm reads", "least", "most", "warm reads/s",
    )  # fmt: skip
    for name, found in times.items():
        seconds = [one.warm_seconds for one in found]
        table.add_row(
            name,
            str(len(found)),
            f"{statistics.median(one.prewarm_seconds for one in found):.1f}",
            f"{statistics.median(one.answers_seconds for one in found):.1f}",
            f"{statistics.median(seconds):.1f}",
            f"{min(seconds):.1f}",
            f"{max(seconds):.1f}",
            f"{statistics.median(one.warm_rate for one in found):.0f}",
        )
    console.print(table)


def _print_figures(console: Console, figures: Figures) -> None:
    table = _table("Figures", "figure", "value", "must", "holds")
    for name, figure in figures.items():
        mark = "[green]yes[/green]" if figure["holds"] else "[red]no[/red]"
        table.add_row(name, str(figure["value"]), str(figure["must"]), mark)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
