"""How fast a cold volume becomes warm, by what is done to it: `python -m bench.prewarm [--quick] [--only PART ...]`.

Runs on the local cloud's cold volumes (3000 IOPS, 125 MiB/s, 30 ms per fetched block, 32 at once); needs root. The
methods are compared on one machine in one run: medians and their ratios, printed as tables. Each part is written to
build/bench/prewarm.json as soon as it has ended, so that parts can be measured alone; all take about half an hour.
--quick (one repeat, small volumes and database) writes prewarm-quick.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from peaker_host.blocks.ranges import total
from rich.console import Console

from bench.figures import RESULTS, Figures, at_most, verdict, written
from bench.prewarm import beside
from bench.prewarm.cold_volumes import BLOCK, Content, Laboratory
from bench.prewarm.database import (
    Database,
    DatabaseBench,
    TimeToWarmReads,
)
from bench.prewarm.engine import cpu_cost, kill_cost, verdicts
from bench.prewarm.figures import (
    PROVISIONED_MIB_PER_S,
    beside_figures,
    cpu_figures,
    database_figures,
    headline_figures,
    kill_figures,
    provisioned_figures,
    verdict_figures,
)
from bench.prewarm.knee import knee_errors
from bench.prewarm.methods import METHODS, Warming, warm
from bench.prewarm.scope import FULL, HEADLINE, QUICK, Scope
from bench.prewarm.tables import (
    print_beside,
    print_cpu,
    print_database,
    print_knee,
    print_methods,
)
from localcloud.dataplane import VolumeLimits

PROVISIONED = VolumeLimits(throughput_mib_per_s=PROVISIONED_MIB_PER_S)
NICENESS = -10


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
    parser.add_argument("--quick", action="store_true", help="one repeat, small volumes")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    arguments = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("volumes and hosts need root")
    # Told to end, it gives back its devices and mounts.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
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
        written(found, RESULTS / bench.scope.file_name, name)
    return verdict(measured, console)


# --- parts -------------------------------------------------------------------------------------------------


def _cpu(bench: Bench) -> Figures:
    cost = cpu_cost(max(3, bench.scope.repeats), bench.say)
    print_cpu(bench.console, cost)
    return cpu_figures(cost)


def _ratios(bench: Bench) -> Figures:
    """What the volume's cap bounds runs alone; dd, which waits for the store, beside itself."""
    say = bench.say
    with Laboratory() as lab:
        snapshot = lab.fill(HEADLINE)
        say(f"{HEADLINE.name}: {lab.describe(snapshot)}")
        used_bytes = total(lab.used_blocks(snapshot)) * BLOCK
        found: dict[str, list[Warming]] = {name: [] for name in METHODS}
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
    print_methods(bench.console, HEADLINE.name, found)
    print_methods(bench.console, f"{HEADLINE.name}, {PROVISIONED_MIB_PER_S} MiB/s", provisioned)
    return headline_figures(found, used_bytes) | provisioned_figures(provisioned)


def _verdicts(bench: Bench) -> Figures:
    with Laboratory() as lab:
        snapshot = lab.fill(HEADLINE)
        return verdict_figures(verdicts(lab, snapshot, bench.scope.verdict_volumes, bench.say))


def _kills(bench: Bench) -> Figures:
    with Laboratory() as lab:
        snapshot = lab.fill(bench.scope.kill_content)
        return kill_figures(kill_cost(lab, snapshot, bench.scope.kills, bench.say))


def _mysql(bench: Bench) -> Figures:
    with Laboratory() as lab, DatabaseBench(lab) as hosts:
        database = hosts.build(bench.scope.table_gib, bench.say)
        times = _database(hosts, database, bench.scope, bench.say)
    print_database(bench.console, bench.scope, times)
    return database_figures(times)


def _knee(bench: Bench) -> Figures:
    with Laboratory() as lab:
        errors = knee_errors(lab, bench.scope.knee_iops, bench.say)
    print_knee(bench.console, errors)
    return {"knee against Little's law, largest error": at_most(max(one.error for one in errors), 0.1)}


def _beside(bench: Bench) -> Figures:
    found, idle = beside.measure(bench.scope.repeats, bench.say)
    print_beside(bench.console, found)
    return beside_figures(found, idle)


PARTS: dict[str, Callable[[Bench], Figures]] = {
    "cpu": _cpu,
    "ratios": _ratios,
    "knee": _knee,
    "kills": _kills,
    "beside": _beside,
    "verdicts": _verdicts,
    "database": _mysql,
}


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
