"""The tables that the bench prints."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.prewarm.beside import READERS, Beside
from bench.prewarm.cold_volumes import MIB
from bench.prewarm.database import (
    BACKGROUND_MIB_PER_S,
    CLIENTS_OF,
    FEW,
    MANY,
    TimeToWarmReads,
)
from bench.prewarm.engine import CpuCost
from bench.prewarm.figures import (
    Warmings,
    median_seconds,
)
from bench.prewarm.knee import KneeError
from bench.prewarm.scope import Scope


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    return table


def print_methods(console: Console, name: str, found: Warmings) -> None:
    table = _table(
        f"{name}: until the method has ended", "method", "runs", "seconds", "least", "most", "GiB read",
        "blocks still cold", "CPU s",
    )  # fmt: skip
    for method, runs in found.items():
        table.add_row(
            method,
            str(len(runs)),
            f"{median_seconds(runs):.1f}",
            f"{min(one.seconds for one in runs):.1f}",
            f"{max(one.seconds for one in runs):.1f}",
            f"{statistics.median(one.bytes_read for one in runs) / MIB / 1024:.2f}",
            f"{statistics.median(one.blocks_cold_after for one in runs):.0f}",
            f"{statistics.median(one.cpu_seconds for one in runs):.1f}",
        )
    console.print(table)


def print_cpu(console: Console, cost: CpuCost) -> None:
    table = _table("CPU on an uncapped device in memory", "reader", "CPU s per GiB", "of it start", "GB/s")
    table.add_row("engine", f"{cost.engine:.3f}", f"{cost.engine_start:.3f}", f"{cost.engine_gb_per_s:.1f}")
    table.add_row("fio line", f"{cost.fio:.3f}", f"{cost.fio_start:.3f}", f"{cost.fio_gb_per_s:.1f}")
    table.add_row("ratio", f"{cost.ratio:.2f}", f"{cost.ratio_without_starts:.2f} without", "")
    console.print(table)


def print_knee(console: Console, errors: Sequence[KneeError]) -> None:
    table = _table(
        "Knee, random 16 KiB reads", "capped at IOPS", "await ms", "readers", "by Little's law", "error"
    )
    for one in errors:
        table.add_row(
            str(one.iops), f"{one.await_ms:g}", f"{one.readers:.2f}", f"{one.expected:g}", f"{one.error:.1%}"
        )
    console.print(table)


def print_database(console: Console, scope: Scope, times: Mapping[str, Sequence[TimeToWarmReads]]) -> None:
    table = _table(
        f"From volume creation, {scope.table_gib:g} GiB table, hot tenth, {CLIENTS_OF['']} clients "
        f"(few: {CLIENTS_OF[FEW]}, many: {CLIENTS_OF[MANY]}), background {BACKGROUND_MIB_PER_S} MiB/s (seconds)",
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


def print_beside(console: Console, found: Mapping[str, Sequence[Beside]]) -> None:
    table = _table(
        f"{READERS} readers of warm pages beside the engine",
        *("volume", "reads/s alone", "beside", "kept", "engine MiB/s alone", "beside", "kept"),
    )
    for name, runs in found.items():
        for one in runs:
            reads = (f"{one.reads_alone:.0f}", f"{one.reads_beside:.0f}", f"{one.reads_kept:.2f}")
            engine = (f"{one.engine_alone:.1f}", f"{one.engine_beside:.1f}", f"{one.engine_kept:.2f}")
            table.add_row(name, *reads, *engine)
    console.print(table)
