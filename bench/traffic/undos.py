"""Builds that are stopped in the middle of their ramp: roll_back takes a replica away that readers use already."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.traffic.cluster import CLUSTER, Say, Stage
from bench.traffic.figures import Window
from bench.traffic.rounds import BUILD_LIMIT_SECONDS, RoundFailed
from peaker_contract.catalogue import state_of

ROLL_BACK_LIMIT_SECONDS = 300.0
# Further into the ramp each time: before the load balancer has registered the target, and while it gets its share.
STEP_SECONDS = 2.0


@dataclass(frozen=True)
class Undo:
    """One build that was stopped. `touched` is while clients could notice it, in epoch seconds."""

    stopped_after_seconds: float
    touched: Window


def play_undos(stage: Stage, count: int, say: Say) -> list[Undo]:
    """Build and stop `count` times. Raises RoundFailed when something of a stopped build is left."""
    undos: list[Undo] = []
    for number in range(count):
        undos.append(_undo(stage, (number + 1) * STEP_SECONDS))
        began, ended = undos[-1].touched
        into = undos[-1].stopped_after_seconds
        say(f"{number + 1:2}/{count} undo   {ended - began:5.1f} s, stopped {into:.0f} s into the ramp")
    return undos


def _undo(stage: Stage, after_seconds: float) -> Undo:
    before = set(stage.replicas())
    rolled_back = {arn for arn, _ in stage.control.executions("roll_back")}
    registered_at = _stopped_in_the_ramp(stage, after_seconds)
    deadline = time.monotonic() + ROLL_BACK_LIMIT_SECONDS
    while not _ended(stage, rolled_back) or set(stage.replicas()) != before:
        if time.monotonic() > deadline:
            raise RoundFailed(
                f"a stopped build is not undone: {sorted(set(stage.replicas()) - before)} run still"
            )
        time.sleep(0.5)
    return Undo(after_seconds, (registered_at, time.time() + 1.0))


def _stopped_in_the_ramp(stage: Stage, after_seconds: float) -> float:
    """Start a build and stop it so long after it began to ramp; when its registration began."""
    arn = stage.control.start("scale_out", {"cluster": CLUSTER, "reason": "bench: undo"})
    entered: dict[str, float] = {}

    def note(state: str) -> None:
        entered.setdefault(state, time.time())
        if state == state_of("ramp_traffic"):
            time.sleep(after_seconds)
            stage.control.client("stepfunctions").stop_execution(
                executionArn=arn, error="Bench", cause="stopped in its ramp"
            )

    ended = stage.control.wait(arn, BUILD_LIMIT_SECONDS, note, poll_seconds=0.25)
    if ended.is_refused:
        raise RoundFailed(f"the build to be stopped was refused: {ended.output['reason']}")
    if ended.status != "ABORTED":
        raise RoundFailed(
            f"the build was to be stopped in its ramp and ended as {ended.status}: {list(entered)}"
        )
    return entered[state_of("register_replica")]


def _ended(stage: Stage, earlier: set[str]) -> bool:
    """Whether the roll-backs that began since have ended, and there is one. Raises RoundFailed when one failed."""
    since = {arn: status for arn, status in stage.control.executions("roll_back") if arn not in earlier}
    if failed := [arn for arn, status in since.items() if status not in ("RUNNING", "SUCCEEDED")]:
        raise RoundFailed(f"roll_back failed: {failed}")
    return bool(since) and "RUNNING" not in since.values()
