"""Whole runs by direct fill, clone, prewarm and refill: `python -m bench.filling`. Needs root; about twenty minutes.

One `scale_out` without a deadline, which reads lazy volumes hot first and teaches the plan how slow the store is, and
two with a deadline: where the settings allow direct fills the plan then takes one, where they allow clones a clone.
Same donor, same machine, a snapshot store of the articles' rate. Then another cluster, on a store of a tenth of AWS's
rates: an expired parked replica back by what has changed, beside a build. Prints all, writes build/bench/filling.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from bench.filling import returning
from bench.filling.cluster import ROOT, RunFailed, Stage, stage
from bench.filling.receipts import all_ready_seconds, hot_ready_seconds, numbers, steps, whole_seconds
from localcloud.hosts.state_lock import live_server

RESULT = ROOT / "build" / "bench" / "filling.json"
STATE = ROOT / ".localcloud" / "filling"
MOST_OF_A_LAZY_VOLUME = 0.7
SLOW_STORE, SMALL_WORLD = "bench.filling.slow_store", "bench.filling.small_world"
FILL, CLONE = "direct_fill", "mysql_clone"
# As much as the donor gives.
CLONE_MIB_PER_S = 4000
_TOO_SOON = timedelta(minutes=5)

Figures = dict[str, dict[str, Any]]


def main() -> int:
    """1 when a figure misses its bound."""
    if live_server(STATE) is not None:
        print(f"a local cloud runs in {STATE}: stop it first", file=sys.stderr)
        return 1
    begun = time.monotonic()
    with stage(STATE, SLOW_STORE, lambda text: _say(begun, text)) as there:
        _say(begun, "scale_out without a deadline: lazy volumes and a prewarm")
        lazy = there.scale_out(None, lambda state: _say(begun, state))
        there.let_runs(direct_fill=True)
        filled = _in_time(there, FILL, begun)
        there.let_runs(clone_mib_per_s=CLONE_MIB_PER_S)
        cloned = _in_time(there, CLONE, begun)
    with stage(STATE, SMALL_WORLD, lambda text: _say(begun, text)) as there:
        refilled = returning.measured(there, lambda text: _say(begun, text))
    figures = {**compared(filled, lazy), **compared_clone(cloned, lazy), **refilled}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=1) + "\n")
    for name, figure in figures.items():
        print(f"{name}: {figure['value']} (must be {figure['must']})")
    return 0 if all(figure["holds"] for figure in figures.values()) else 1


def _in_time(there: Stage, method: str, begun: float) -> dict[str, Any]:
    """The receipt of a run that has a deadline which nothing makes: it takes the quickest method that it may.

    Raises RunFailed where that is another one.
    """
    ready_by = there.clock.now() + _TOO_SOON
    comparison = there.planned(ready_by)["comparison"]
    for one in comparison["methods"]:
        _say(begun, f"{one['name']}: {one['why_not'] or one['p90_seconds']}")
    if comparison["chosen"] != method:
        raise RunFailed(f"the plan takes {comparison['chosen']} and not {method}: {comparison['reason']}")
    _say(begun, f"scale_out by {method}, ready by {ready_by:%d %b %H:%M} of the cloud's clock")
    return there.scale_out(ready_by, lambda state: _say(begun, state))


def compared_clone(cloned: Mapping[str, Any], lazy: Mapping[str, Any]) -> Figures:
    """Of two receipts. Raises RunFailed where the first one was no clone."""
    if "cloned_from" not in numbers(cloned, "StartPrewarm"):
        raise RunFailed("the run with a deadline was not cloned")
    proof, taken = numbers(cloned, "VerifyStorage"), steps(cloned)["CreateSnapshots"]["numbers"]
    whole = {name: whole_seconds(one) for name, one in (("clone", cloned), ("lazy", lazy))}
    return {
        "clone against lazy volume plus prewarm, serving, a whole run": {
            "value": round(whole["clone"] / whole["lazy"], 4),
            "must": "stated",
            "holds": True,
            "all_ready_seconds": {
                name: round(all_ready_seconds(one), 2) for name, one in (("clone", cloned), ("lazy", lazy))
            },
            "serves_after_seconds": {name: round(seconds, 2) for name, seconds in whole.items()},
        },
        "storage proof of the cloned replica": {
            "value": proof["verdict"], "must": "warm", "holds": proof["verdict"] == "warm",
        },
        "snapshots that the clone took": {
            "value": len(taken.get("snapshots", {})), "must": "0", "holds": not taken.get("snapshots"),
        },
    }  # fmt: skip


def compared(filled: Mapping[str, Any], lazy: Mapping[str, Any]) -> Figures:
    """Of two receipts. Raises RunFailed where the first one was no fill."""
    if "filled_from" not in numbers(filled, "StartPrewarm"):
        raise RunFailed("the run with a deadline was not filled directly")
    hot = {name: hot_ready_seconds(one) for name, one in (("fill", filled), ("lazy", lazy))}
    ratio = hot["fill"] / hot["lazy"]
    proof = numbers(filled, "VerifyStorage")
    return {
        "direct fill against lazy volume plus prewarm, hot set ready, a whole run": {
            "value": round(ratio, 4),
            "must": f"<= {MOST_OF_A_LAZY_VOLUME}",
            "holds": ratio <= MOST_OF_A_LAZY_VOLUME,
            "hot_ready_seconds": {name: round(seconds, 2) for name, seconds in hot.items()},
            "all_ready_seconds": {
                name: round(all_ready_seconds(one), 2) for name, one in (("fill", filled), ("lazy", lazy))
            },
            "serves_after_seconds": {
                name: round(whole_seconds(one), 2) for name, one in (("fill", filled), ("lazy", lazy))
            },
        },
        "storage proof of the filled replica": {
            "value": proof["verdict"], "must": "warm", "holds": proof["verdict"] == "warm",
        },
    }  # fmt: skip


def _say(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
