"""Whole runs by direct fill, by clone and by prewarm: `python -m bench.filling`. Needs root; about eight minutes.

One `scale_out` without a deadline, which reads lazy volumes hot first and teaches the plan how slow the store is, and
two with a deadline: where the settings allow direct fills the plan then takes one, where they allow clones a clone.
Same donor, same machine, a snapshot store of the articles' rate. Prints all, writes build/bench/filling.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bench.filling.cluster import CLOCK_SCALE, ROOT, RunFailed, Stage, stage
from localcloud.hosts.state_lock import live_server

RESULT = ROOT / "build" / "bench" / "filling.json"
STATE = ROOT / ".localcloud" / "filling"
MOST_OF_A_LAZY_VOLUME = 0.7
SLOW_STORE = "bench.filling.slow_store"
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
    figures = {**compared(filled, lazy), **compared_clone(cloned, lazy)}
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
    if "cloned_from" not in _numbers(cloned, "StartPrewarm"):
        raise RunFailed("the run with a deadline was not cloned")
    proof, taken = _numbers(cloned, "VerifyStorage"), _steps(cloned)["CreateSnapshots"]["numbers"]
    whole = {name: one["seconds"] / CLOCK_SCALE for name, one in (("clone", cloned), ("lazy", lazy))}
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
    if "filled_from" not in _numbers(filled, "StartPrewarm"):
        raise RunFailed("the run with a deadline was not filled directly")
    hot = {name: hot_ready_seconds(one) for name, one in (("fill", filled), ("lazy", lazy))}
    ratio = hot["fill"] / hot["lazy"]
    proof = _numbers(filled, "VerifyStorage")
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
                name: round(one["seconds"] / CLOCK_SCALE, 2) for name, one in (("fill", filled), ("lazy", lazy))
            },
        },
        "storage proof of the filled replica": {
            "value": proof["verdict"], "must": "warm", "holds": proof["verdict"] == "warm",
        },
    }  # fmt: skip


def hot_ready_seconds(receipt: Mapping[str, Any]) -> float:
    """From the volumes' making until the hot set is there, in real seconds: the workflow's way to the engine by the
    cloud's clock, and the engine's own time."""
    return _to_engine(receipt) + float(_numbers(receipt, "ReportPrewarm")["hot_warm_seconds"])


def all_ready_seconds(receipt: Mapping[str, Any]) -> float:
    """As `hot_ready_seconds`, until the engine had all that it was to bring or to read."""
    return _to_engine(receipt) + float(_numbers(receipt, "ReportPrewarm")["elapsed_seconds"])


def _to_engine(receipt: Mapping[str, Any]) -> float:
    steps = _steps(receipt)
    first, engine = (
        datetime.fromisoformat(steps[name]["started_at"]) for name in ("CreateVolumes", "StartPrewarm")
    )
    return (engine - first).total_seconds() / CLOCK_SCALE


def _steps(receipt: Mapping[str, Any]) -> dict[str, Any]:
    return {step["step"]: step for step in receipt["steps"]}


def _numbers(receipt: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _steps(receipt)[step]["numbers"]
    return found


def _say(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
