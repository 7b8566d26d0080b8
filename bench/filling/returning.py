"""An expired parked replica back by its changed blocks, beside a build: whole runs on real hosts, in turn.

A replica is built and parked. The source then changes a twentieth of the data and purges its binary logs, so that a
return fails and the replica has expired. The next run refills it; one more builds another of the same data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.filling.cluster import RunFailed, Say, Stage
from bench.filling.receipts import all_ready_seconds, numbers, steps, whole_seconds

MOST_OF_A_BUILD = 0.25
# Nothing else of the retirement is measured.
SETTINGS: dict[str, dict[str, Any]] = {
    "retirement": {"idle_seconds": 60, "park": "always", "refill_expired": True},
    "prewarm": {"direct_fill": True},
    "limits": {"minimum_lifetime_minutes": 0},
}
# Rows that lie together, of one of eight tables of 250,000 each: with its logs, about a twentieth of what is used.
CHANGE = "UPDATE sbtest1 SET c = REVERSE(c), pad = REVERSE(pad) WHERE id <= 12000"
A_ROW = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1"

Figures = dict[str, dict[str, Any]]


def measured(there: Stage, say: Say) -> Figures:
    """Raises RunFailed where a run did not end as it should, or the plan takes another way."""
    there.settle(**SETTINGS)
    say("scale_out: a replica that is to be parked")
    there.scale_out(None, say)
    say("scale_in: it is parked")
    _expect(str(steps(there.scale_in(say))["ChooseDisposal"]["numbers"]["disposal"]), "park")
    _expire(there, say)
    planned = there.planned(None)
    _expect(planned["method"]["action"], "refill")
    say(f"refill: {planned['method']['reason']}")
    refilled = there.scale_out(None, say)
    say("scale_out: a build of the same data")
    built = there.scale_out(None, say)
    return compared(refilled, built)


def _expire(there: Stage, say: Say) -> None:
    say("the source changes a twentieth of the data and purges its binary logs")
    there.on_source(CHANGE)
    # A purge leaves a log that is still sent: the base replica has something of the newest one then.
    there.on_source(f"FLUSH BINARY LOGS; {A_ROW}")
    there.base_has_followed()
    newest = there.on_source("SHOW BINARY LOGS").splitlines()[-1].split()[0]
    there.on_source(f"PURGE BINARY LOGS TO '{newest}'")
    _expect(there.failing_scale_out(say), "BinlogsGone")


def _expect(found: str, wanted: str) -> None:
    if found != wanted:
        raise RunFailed(f"{found} where {wanted} was to be")


def compared(refilled: Mapping[str, Any], built: Mapping[str, Any]) -> Figures:
    """Of two receipts. Raises KeyError where one is of another way."""
    warm = {
        "refill": all_ready_seconds(refilled, first="SnapshotOwnVolumes"),
        "build": all_ready_seconds(built),
    }
    whole = {"refill": whole_seconds(refilled), "build": whole_seconds(built)}
    written = numbers(refilled, "ReportPrewarm")["blocks_done"]
    of = numbers(built, "ReportPrewarm")["blocks_total"]
    ratio, verdict = warm["refill"] / warm["build"], numbers(refilled, "VerifyStorage")["verdict"]
    return {
        "return by changed blocks against a build, all warm, a whole run": {
            "value": round(ratio, 4),
            "must": f"<= {MOST_OF_A_BUILD}",
            "holds": ratio <= MOST_OF_A_BUILD,
            "changed_share": round(written / of, 4),
            "all_ready_seconds": {name: round(seconds, 2) for name, seconds in warm.items()},
        },
        "return by changed blocks against a build, serving, a whole run": {
            "value": round(whole["refill"] / whole["build"], 4),
            "must": "stated",
            "holds": True,
            "serves_after_seconds": {name: round(seconds, 2) for name, seconds in whole.items()},
        },
        "storage proof of the refilled replica": {
            "value": verdict, "must": "warm", "holds": verdict == "warm",
        },
    }  # fmt: skip
