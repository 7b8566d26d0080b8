"""Do replicas come and go without a failed query? `python -m bench.traffic [--joins 20] [--undos 5] [--only PART]`.

On the local cloud, under real reads through the endpoint by pools with and without keepalive: joins and retirements
through the workflows and builds that are stopped in their ramp, then faults on a serving replica. The load balancer is
as late as AWS's. Prints tables, writes build/bench/traffic.json. The rounds take about 65 minutes; needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.figures import RESULTS, Figures, at_most, stated, verdict, written
from bench.traffic.clients import ReaderProcess, SourceHeartbeat, Traffic, source_endpoint
from bench.traffic.cluster import SETTINGS, WORKFLOW_SCALE, Say, Stage, stage
from bench.traffic.faults import FaultRound, break_things
from bench.traffic.figures import (
    FAILED_QUERIES,
    Window,
    by_server,
    failed,
    first_to_answer,
    p99_ms,
    too_stale,
)
from bench.traffic.rounds import Join, Rounds, play
from bench.traffic.undos import Undo, play_undos

RESULT = RESULTS / "traffic.json"
BUILDS_OF_20 = 4
# Until the base replica has the working set in memory: the page list that a newcomer gets is the donor's.
WARM_SECONDS = 30.0


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.traffic", description=__doc__)
    parser.add_argument("--joins", type=int, default=20, help="joins and as many retirements (default 20)")
    parser.add_argument("--undos", type=int, default=5, help="builds stopped in their ramp (default 5)")
    parser.add_argument(
        "--only", choices=("rounds", "faults"), help="one part; its figures replace the old ones"
    )
    arguments = parser.parse_args(argv)
    if os.geteuid() != 0:
        parser.error("the local cloud needs root")
    console = Console(width=130, highlight=False)
    started = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:6.0f} s[/dim]  {text}")

    if arguments.only is None:
        RESULT.unlink(missing_ok=True)
    figures: Figures = {}
    with stage(WORKFLOW_SCALE, say) as running:
        running.change_settings(SETTINGS)
        heartbeat = SourceHeartbeat(source_endpoint(running.cluster.source_address, running.readers))
        heartbeat.start()
        try:
            if arguments.only != "faults":
                # After each part: half an hour's figures outlast a failure of what follows.
                figures = written(_rounds(running, arguments.joins, arguments.undos, console, say), RESULT)
            if arguments.only != "rounds":
                figures = written(_faults(running, console, say), RESULT)
        finally:
            heartbeat.stop()
    return verdict(figures, console)


def _rounds(running: Stage, joins: int, undos: int, console: Console, say: Say) -> Figures:
    builds = max(1, round(joins * BUILDS_OF_20 / 20))
    with ReaderProcess(running.readers) as readers:
        time.sleep(WARM_SECONDS)
        rounds = play(running, joins, builds, say)
        undone = play_undos(running, undos, say)
        traffic = readers.stop()
    gate = float(running.settings["gates"]["lag_seconds"])
    _print_rounds(console, rounds, traffic)
    return _round_figures(rounds, undone, traffic, gate)


def _round_figures(
    rounds: Rounds, undone: Sequence[Undo], traffic: Traffic, lag_gate_seconds: float
) -> Figures:
    last = undone[-1].touched[1] if undone else rounds.changes[-1].ended_at
    whole = (rounds.changes[0].started_at, last)
    interval_seconds = 0.5  # the health interval at the workflows' clock
    joins, leaves = rounds.windows("build", "return"), rounds.windows("park", "retire")
    of_base, _ = by_server(traffic.reads, first_to_answer(traffic.reads))
    steady = p99_ms(traffic.reads, rounds.steady)
    joining, leaving = p99_ms(traffic.reads, joins), p99_ms(traffic.reads, leaves)
    lost = failed(traffic.reads, [whole])
    stale = too_stale(traffic.reads, whole, interval_seconds, lag_gate_seconds)
    unopened = [one for one in traffic.attempts if one.server is None and whole[0] <= one.at <= whole[1]]
    figures = {
        FAILED_QUERIES: at_most(len(lost), 0),
        "connections not opened at once, joins and retirements": at_most(len(unopened), 0),
        "stale reads beyond the gate, joins and retirements": at_most(len(stale), 0),
        "p99 during joins against steady": at_most(joining / steady, 1.25),
        "p99 during retirements against steady": at_most(leaving / steady, 1.25),
        # A join changes nothing of the base replica: what it has of the rise is the machine's, which all share.
        "p99 during joins against the base's own then": at_most(joining / p99_ms(of_base, joins), 1.25),
        "p99 during retirements against the base's own then": at_most(
            leaving / p99_ms(of_base, leaves), 1.25
        ),
        "p99 of the base during joins against steady": stated(
            p99_ms(of_base, joins) / p99_ms(of_base, rounds.steady)
        ),
    }
    if rounds.seconds("return") and rounds.seconds("build"):
        ratio = statistics.median(rounds.seconds("return")) / statistics.median(rounds.seconds("build"))
        figures["time to service, return against build"] = at_most(ratio, 0.25)
    return figures


def _faults(running: Stage, console: Console, say: Say) -> Figures:
    found = break_things(running, say)
    _print_faults(console, found)
    detections = [one.detection for one in found]
    return {
        "detection of a fault, median, health intervals": at_most(
            statistics.median(one.intervals for one in detections), 2.0
        ),
        "detection of a fault, worst, health intervals": at_most(
            max(one.intervals for one in detections), 2.0
        ),
        "failed queries that were not in flight, faults": at_most(sum(one.others for one in detections), 0),
        "reads too stale, faults": at_most(sum(one.reads_too_stale for one in detections), 0),
    }


def _print_rounds(console: Console, rounds: Rounds, traffic: Traffic) -> None:
    p99s = ("p99 ms while clients could notice", "of the base replica", "of those that come and go")
    table = Table("change", "count", "median s", "longest s", *p99s)
    for kind in ("build", "return", "park", "retire"):
        seconds = rounds.seconds(kind)
        if seconds:
            table.add_row(
                kind,
                str(len(seconds)),
                f"{statistics.median(seconds):.1f}",
                f"{max(seconds):.1f}",
                *_p99_by_server(traffic, rounds.windows(kind)),
            )
    table.add_row("steady", str(len(rounds.steady)), "", "", *_p99_by_server(traffic, rounds.steady))
    console.print(table)
    joins: tuple[Join, ...] = ("build", "return")
    for kind in joins:
        took = [
            f"{state} {seconds:.1f}" for state, seconds in rounds.step_seconds(kind).items() if seconds >= 0.3
        ]
        console.print(f"{kind}, median seconds: {', '.join(took)}")
    answered = sum(read.error is None for read in traffic.reads)
    console.print(f"{answered:,} queries answered on {len(traffic.attempts):,} connections")
    for read in (read for read in traffic.reads if read.error is not None):
        console.print(f"failed: {read.pool} pool, server {read.server}: {read.error}")


def _p99_by_server(traffic: Traffic, windows: Sequence[Window]) -> list[str]:
    """Of all reads, of the base replica's, and of those of the replicas that come and go."""
    base, others = by_server(traffic.reads, first_to_answer(traffic.reads))
    return [f"{p99_ms(reads, windows):.1f}" for reads in (traffic.reads, base, others)]


def _print_faults(console: Console, found: Sequence[FaultRound]) -> None:
    table = Table(
        "fault", "detected s", "intervals", "failed in flight", "other failures", "too stale", "said"
    )
    for one in found:
        seen = one.detection
        table.add_row(
            seen.fault, f"{seen.seconds:.1f}", f"{seen.intervals:.2f}", str(seen.in_flight), str(seen.others),
            str(seen.reads_too_stale), one.reason,
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
