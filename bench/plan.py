"""Whether a plan is right: `python -m bench.plan [--situations N] [--seed N] [--only PART ...]`.

The articles' cases, the choice of a method against a search of everything, the month's report against its receipts,
plans against what twenty runs took, and what these vary by themselves. Needs no AWS, no root and about ten minutes.
Prints a table, writes build/bench/plan.json; figures of parts that were not measured stay there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

from peaker.domain.planning.checks.bandwidth import SizedVolume, look_at_bandwidth
from peaker.domain.planning.lead_time import LeadTimeInputs, VolumeToHydrate, predict_lead_time
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.storage.io_findings import InstancePromise
from rich.console import Console
from rich.table import Table

from bench.outcomes.figures import of_oracle, of_runs
from bench.outcomes.runs import account
from bench.outcomes.truth import KINDS
from bench.plan_month import compared_month
from bench.plan_search import compared
from peaker_contract.steps import Part

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "build" / "bench" / "plan.json"
SITUATIONS, SEED = 10_000, 20261123
_AT_ONCE = 100
_PROCESSES = 2
_OTHER_WORLDS = 4
_MONTHS = 100
# A gigabit a second, in MiB/s.
_GIGABIT = 1e9 / 8 / 1024**2

Figure = dict[str, object]
Figures = dict[str, Figure]


def _figure(value: object, must: str, holds: bool) -> Figure:
    return {"value": value, "must": must, "holds": holds}


def articles(_: argparse.Namespace) -> Figures:
    """What the articles work out by hand."""
    lead = predict_lead_time(LeadTimeInputs((VolumeToHydrate("data", 200e9, 50e6),)))
    seconds = lead.component(Part.HYDRATION).p50_seconds
    # 10,000 PIOPS on an instance of a gigabit: 16 KiB each, so 7,629 come through.
    volume = SizedVolume("data", "io2", 200, 10_000, 2_560)
    checks = look_at_bandwidth(
        [volume], "m1.large", InstancePromise(baseline_mib_per_s=round(_GIGABIT, 2)), US_EAST_1
    )
    wasted = checks[-1].numbers.get("wasted_usd_month")
    verdicts = [one.verdict for one in checks]
    carried = checks[0].numbers["baseline"]
    return {
        "200 GB at 50 MB/s, seconds to warm": _figure(seconds, "4000", seconds == 4000),
        "1 Gbit instance with 10,000 PIOPS, IOPS that it carries": _figure(carried, "7629", carried == 7629),
        "1 Gbit instance with 10,000 PIOPS, verdicts": _figure(
            verdicts, "warn each", verdicts == ["warn"] * 3
        ),
        "1 Gbit instance with 10,000 PIOPS, USD a month wasted": _figure(
            wasted, "154.12 (2,371 x 0.065)", isinstance(wasted, float) and abs(wasted - 154.12) < 0.011
        ),
    }


def chooser(given: argparse.Namespace) -> Figures:
    """The choice against the best of everything, in situations at random."""
    situations = given.situations
    jobs = [(min(_AT_ONCE, situations - first), first) for first in range(0, situations, _AT_ONCE)]
    with get_context("spawn").Pool(_PROCESSES) as pool:
        worse = [line for lines in pool.starmap(compared, jobs) for line in lines]
    for line in worse[:10]:
        print(f"worse: {line}", file=sys.stderr)
    name = f"choices dearer or later than the best, of {situations:,}"
    return {name: _figure(len(worse), "0", not worse and situations > 0)}


def month(_: argparse.Namespace) -> Figures:
    """`peaker month` over simulated months: against the receipts' sum, and against what the hours truly cost."""
    found = [compared_month(seed) for seed in range(_MONTHS)]
    told = max(one.from_receipts_cents for one in found)
    truth = max(max(one.from_truth_cents, one.parked_cents) for one in found)
    return {
        f"report against receipts, cents apart, most of {_MONTHS} months": _figure(told, "0", told == 0),
        f"report against the true cost, cents apart, most of {_MONTHS} months": _figure(
            truth, "<= 1", truth <= 1
        ),
    }


def runs(given: argparse.Namespace) -> Figures:
    """What plans said of runs against what these took, on a simulated cloud in virtual time."""
    found = account(KINDS, given.seed)
    for line in (line for one in found for line in one.failed):
        print(f"failed: {line}", file=sys.stderr)
    return of_runs(found)


def oracle(given: argparse.Namespace) -> Figures:
    """What the same runs took in other worlds: how much of the error is nobody's to avoid."""
    with get_context("spawn").Pool(_PROCESSES) as pool:
        jobs = [(KINDS, given.seed, world) for world in range(1 + _OTHER_WORLDS)]
        found, *others = pool.starmap(account, jobs, chunksize=1)
    return of_oracle(found, [one for other in others for one in other])


PARTS: Mapping[str, Callable[[argparse.Namespace], Figures]] = {
    "articles": articles,
    "chooser": chooser,
    "month": month,
    "runs": runs,
    "oracle": oracle,
}


def main(words: Sequence[str]) -> int:
    """Measure, print, write; 1 when a figure does not hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__)
    parser.add_argument("--situations", type=int, default=SITUATIONS, help="how many the chooser is asked")
    parser.add_argument("--seed", type=int, default=SEED, help="what the clusters of the runs are drawn by")
    parser.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    given = parser.parse_args(words)
    measured: Figures = {}
    for name in given.only or PARTS:
        print(f"{name} ...", file=sys.stderr)
        measured |= {title: {**one, "part": name} for title, one in PARTS[name](given).items()}
    _keep(measured)
    _print(measured)
    return 0 if all(figure["holds"] for figure in measured.values()) else 1


def _keep(measured: Figures) -> None:
    """Put the figures in place of their parts' earlier ones; other parts' stay."""
    kept: Figures = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    parts = {one["part"] for one in measured.values()}
    kept = {title: one for title, one in kept.items() if one.get("part") not in parts}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(kept | measured, indent=1) + "\n", encoding="utf-8")


def _print(measured: Figures) -> None:
    table = Table(box=None, header_style="bold", title="bench.plan")
    for column in ("figure", "must", "value", "holds"):
        table.add_column(column, overflow="fold")
    for title, one in measured.items():
        table.add_row(title, str(one["must"]), str(one["value"]), "yes" if one["holds"] else "NO")
    Console(width=130).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
