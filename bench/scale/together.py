"""Two replicas in one run against two runs one after the other, on real volumes with real MySQL; needs root.

Real seconds, from the start of a run to its end. The data plane's work is real, the workflows' waits are those of the
cloud's clock, which runs as in bench.traffic. Both replicas are built; before each measurement the base replica stands
alone again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from bench.faults import figures
from bench.traffic.cluster import SETTINGS, WORKFLOW_SCALE, Stage, run_workflow, stage
from bench.traffic.rounds import RETIRE_LIMIT_SECONDS

REPLICAS, ROUNDS = 2, 2
RUN_LIMIT_SECONDS = 900.0
LONGEST_RATIO = 0.65


def measure() -> figures.Figures:
    """All figures; about twenty-five minutes. Raises RuntimeError where a run does not do its work."""
    if os.geteuid() != 0:
        raise RuntimeError("together: the local cloud needs root")
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)

    at_once, in_turn = [], []
    with stage(WORKFLOW_SCALE, say) as running:
        running.change_settings(SETTINGS)
        for _ in range(ROUNDS):
            at_once.append(_scaled_out(running, REPLICAS))
            say(f"{REPLICAS} in one run: {at_once[-1]:.1f} s")
            _alone_again(running)
            in_turn.append(sum(_scaled_out(running, 1) for _ in range(REPLICAS)))
            say(f"{REPLICAS} one after the other: {in_turn[-1]:.1f} s")
            _alone_again(running)
    ratio = sum(at_once) / sum(in_turn)
    return {
        f"real time, {REPLICAS} replicas in one run against one after the other": {
            "value": round(ratio, 3),
            "must": f"<= {LONGEST_RATIO}",
            "holds": ratio <= LONGEST_RATIO,
        }
    }


def _scaled_out(running: Stage, count: int) -> float:
    started = time.time()
    _done(running, "scale_out", {"count": count, "reason": "bench: together"})
    return time.time() - started


def _alone_again(running: Stage) -> None:
    for _ in range(REPLICAS):
        _done(running, "scale_in", {"reason": "bench: together"}, RETIRE_LIMIT_SECONDS)


def _done(
    running: Stage, workflow: str, request: Mapping[str, object], limit_seconds: float = RUN_LIMIT_SECONDS
) -> None:
    status, _, _ = run_workflow(running, workflow, request, limit_seconds)
    if status != "SUCCEEDED":
        raise RuntimeError(f"{workflow} {dict(request)}: {status}")
