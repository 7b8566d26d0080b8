"""The bench's figures, each with what it must be."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from bench.figures import Figures, at_least, at_most
from bench.prewarm.beside import Beside
from bench.prewarm.cold_volumes import MIB
from bench.prewarm.database import (
    CLIENTS_OF,
    FEW,
    MANY,
    TimeToWarmReads,
)
from bench.prewarm.engine import CpuCost, KillCost, Verdicts
from bench.prewarm.methods import Warming

CAP_MIB_PER_S = 125
PROVISIONED_MIB_PER_S = 250
# The engine's start, its plan of the blocks and the last of its reads come on top of the floor.
AGAINST_THE_FLOOR = 1.15
# Many clients bring a small hot set by themselves; a prewarm must not be slower then.
AGAINST_NO_PREWARM = {FEW: 0.6, "": 1.0, MANY: 1.0}

Warmings = Mapping[str, Sequence[Warming]]


def median_seconds(found: Iterable[Warming]) -> float:
    return statistics.median(one.seconds for one in found)


def headline_figures(found: Warmings, used_bytes: int) -> Figures:
    used = median_seconds(found["used only"])
    rate = statistics.median(one.engine_mib_per_s or 0.0 for one in found["used only"])
    read = statistics.median(one.bytes_read for one in found["used only"])
    times_faster = {
        f"times faster than {other}": round(median_seconds(found[other]) / used, 1)
        for other in ("dd buffered", "dd direct", "fio line")
    }
    return {
        "used only against what the volume allows": at_most(
            used / floor_seconds(used_bytes, CAP_MIB_PER_S), AGAINST_THE_FLOOR, **times_faster
        ),
        "throughput against the cap": at_least(rate / CAP_MIB_PER_S, 0.95),
        "bytes read against used and present": at_most(read / used_bytes, 1.05),
    }


def provisioned_figures(found: Warmings) -> Figures:
    """At the baseline the cap holds the engine back, and dd, which waits for two blocks at a time, hardly."""
    ratio = median_seconds(found["used only"]) / median_seconds(found["dd direct"])
    return {
        f"used only against dd direct at {PROVISIONED_MIB_PER_S} MiB/s provisioned": at_most(ratio, 1 / 12)
    }


def floor_seconds(used_bytes: int, mib_per_s: float) -> float:
    """How long the volume's throughput alone makes the read of the used blocks take."""
    return used_bytes / (mib_per_s * MIB)


def cpu_figures(cost: CpuCost) -> Figures:
    rate = min(cost.engine_gb_per_s, cost.fio_gb_per_s)
    return {
        "engine CPU against fio": at_most(
            cost.ratio, 1.5, includes="process starts", gb_per_s=round(rate, 2)
        ),
    }


def kill_figures(cost: KillCost) -> Figures:
    return {f"blocks read twice after {cost.kills} kills": at_most(cost.share, 0.02)}


def beside_figures(found: Mapping[str, Sequence[Beside]], idle: Sequence[float]) -> Figures:
    """Medians of shares, each of one run; beside them the least of the runs."""
    figures = {}
    for name, runs in found.items():
        reads, engine = [one.reads_kept for one in runs], [one.engine_kept for one in runs]
        figures[f"{name}: warm reads beside the engine against alone"] = at_least(
            statistics.median(reads),
            0.5,
            least=round(min(reads), 4),
            reads_per_s_alone=round(statistics.median(one.reads_alone for one in runs)),
        )
        figures[f"{name}: the engine beside readers against alone"] = at_least(
            statistics.median(engine),
            0.8,
            least=round(min(engine), 4),
            mib_per_s_alone=round(statistics.median(one.engine_alone for one in runs), 1),
        )
    figures["the engine on a mounted volume that nobody reads against alone"] = at_least(
        statistics.median(idle), 0.9, least=round(min(idle), 4)
    )
    return figures


def verdict_figures(found: Verdicts) -> Figures:
    name = f"called warm although cold, of {found.volumes} volumes"
    return {
        name: at_most(
            found.wrongly_warm,
            0,
            cold=found.cold,
            rightly_not_warm=found.rightly_not_warm,
            warm=found.warm,
            unknown=found.unknown,
        )
    }


def database_figures(times: Mapping[str, Sequence[TimeToWarmReads]]) -> Figures:
    median = {name: statistics.median(one.warm_seconds for one in found) for name, found in times.items()}
    rate = {name: statistics.median(one.warm_rate for one in found) for name, found in times.items()}
    hot = median["hot first"]
    figures = {
        f"create to warm reads: hot first against no prewarm, {CLIENTS_OF[clients]} clients": at_most(
            median[f"hot first{clients}"] / median[f"no prewarm{clients}"], limit
        )
        for clients, limit in AGAINST_NO_PREWARM.items()
        if f"hot first{clients}" in median
    }
    if "warm volume" in times:
        beside = rate["hot first"] / rate["warm volume"]
        figures["reads beside the background prewarm against a warm volume"] = at_least(beside, 0.9)
    return {
        **figures,
        "create to warm reads: hot first against used first": at_most(hot / median["used first"], 0.5),
        "create to warm reads: hot first against fio first": at_most(hot / median["fio first"], 0.35),
    }
