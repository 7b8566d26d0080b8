"""An expired parked replica back by its changed blocks, beside a build: whole runs on real hosts, in turn.

A replica is built and parked. The source then changes a twentieth of the data and purges its binary logs, so that a
return fails and the replica has expired. The next run refills it; one more builds another of the same data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from bench.filling.cluster import RunFailed, Say, Stage

MOST_OF_A_BUILD = 0.25
CHANGED_SHARE = 0.05
_BLOCK_BYTES = 512 * 1024
# Nothing else of the retirement is measured.
SETTINGS: dict[str, dict[str, Any]] = {
    "retirement": {"idle_seconds": 60, "park": "always", "refill_expired": True},
    "prewarm": {"direct_fill": True},
    "limits": {"minimum_lifetime_minutes": 0},
}
# Of one of eight tables of the dataset, rows that lie together.
CHANGE = "UPDATE sbtest1 SET c = REVERSE(c), pad = REVERSE(pad) WHERE id <= 80000"
_FOLLOWED_SECONDS = 5.0

Figures = dict[str, dict[str, Any]]


def measured(there: Stage, say: Say) -> Figures:
    """Raises RunFailed where a run did not end as it should, or the plan takes another way."""
    there.settle(**SETTINGS)
    say("scale_out: a replica that is to be parked")
    there.scale_out(None, say)
    say("scale_in: it is parked")
    _expect(_last_step(there.scale_in(say)), "ParkReplica")
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
    time.sleep(_FOLLOWED_SECONDS)
    there.on_source("FLUSH BINARY LOGS; DO SLEEP(2); PURGE BINARY LOGS BEFORE NOW()")
    _expect(there.failing_scale_out(say), "BinlogsGone")


def _expect(found: str, wanted: str) -> None:
    if found != wanted:
        raise RunFailed(f"{found} where {wanted} was to be")


def _last_step(receipt: Mapping[str, Any]) -> str:
    names = [str(one["step"]) for one in receipt["steps"]]
    return "ParkReplica" if "ParkReplica" in names else names[-1]


def compared(refilled: Mapping[str, Any], built: Mapping[str, Any]) -> Figures:
    """Of two receipts."""
    return {"receipts": {"refilled": refilled, "built": built}}
