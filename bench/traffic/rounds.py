"""Replicas come and go under load: joins by building and by return, retirements by parking and for good."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench.traffic.cluster import Say, Stage, run_workflow
from bench.traffic.figures import Window
from peaker_contract.catalogue import state_of
from peaker_contract.errors import ReplicaWorseThanPeers, StorageNotWarm

BUILD_LIMIT_SECONDS, RETIRE_LIMIT_SECONDS = 300.0, 180.0
# So that a quiet p99 rests on as many reads as one of a change: each window has some 2,000.
STEADY_SECONDS = 15.0

Join = Literal["build", "return"]
Leave = Literal["park", "retire"]


class RoundFailed(Exception):
    """A workflow did not do its work; the message says which and why."""


class NotProven(RoundFailed):
    """The proof or the ramp refused the newcomer, as either may on a busy machine; it is gone, or parked again."""


@dataclass(frozen=True)
class Change:
    """One join or retirement. Times are epoch seconds; `touched` is while clients could notice it.

    `done_at` is when the endpoint sends reads to a joining replica, whose share then rises, or when a leaving one is
    stopped or gone. `entered` is when each state was entered first.
    """

    kind: Join | Leave
    started_at: float
    done_at: float
    ended_at: float
    touched: Window
    entered: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return self.done_at - self.started_at

    def step_seconds(self) -> dict[str, float]:
        """How long each state took, in order; of parallel states until the next one was entered."""
        times = sorted(self.entered.items(), key=lambda item: item[1])
        ends = [*(at for _, at in times[1:]), self.ended_at]
        return {state: end - at for (state, at), end in zip(times, ends, strict=True)}


@dataclass(frozen=True)
class Rounds:
    """What was done, and the quiet times between."""

    changes: tuple[Change, ...]
    steady: tuple[Window, ...]

    def seconds(self, kind: Join | Leave) -> list[float]:
        """Durations of the changes of one kind."""
        return [change.seconds for change in self.changes if change.kind == kind]

    def step_seconds(self, kind: Join | Leave) -> dict[str, float]:
        """The median duration of each state of the changes of one kind, in the order of the first."""
        found = [change.step_seconds() for change in self.changes if change.kind == kind]
        return {
            state: statistics.median(one[state] for one in found if state in one)
            for state in (found[0] if found else {})
        }

    def windows(self, *kinds: Join | Leave) -> list[Window]:
        """When clients could notice changes of these kinds."""
        return [change.touched for change in self.changes if change.kind in kinds]


def play(stage: Stage, count: int, builds: int, say: Say) -> Rounds:
    """`count` joins and retirements: `builds` joins built anew, then the others by return.

    A replica is parked when the next join returns it, and retired when the next join builds.
    """
    kinds: list[Join] = ["build" if number < builds else "return" for number in range(count)]
    changes: list[Change] = []
    steady: list[Window] = []
    for number, kind in enumerate(kinds):
        following = kinds[number + 1] if number + 1 < count else "build"
        leave: Leave = "park" if following == "return" else "retire"
        changes.append(_joined(stage, kind, say))
        say(f"{number + 1:2}/{count} {kind:6} {changes[-1].seconds:5.1f} s to service")
        steady.append(_quiet())
        changes.append(leave_service(stage, leave))
        say(f"{number + 1:2}/{count} {leave:6} {changes[-1].seconds:5.1f} s")
        steady.append(_quiet())
    return Rounds(tuple(changes), tuple(steady))


def _joined(stage: Stage, kind: Join, say: Say) -> Change:
    """As `join`, once more where the storage proof or the ramp refused."""
    try:
        return join(stage, kind)
    except NotProven as refused:
        say(f"refused, and brought once more: {refused}")
        return join(stage, kind)


def join(stage: Stage, kind: Join) -> Change:
    """One scale_out to its end; raises NotProven and RoundFailed, also when it built where it should have returned."""
    started = time.time()
    status, entered, ended = run_workflow(
        stage, "scale_out", {"reason": f"bench: {kind}"}, BUILD_LIMIT_SECONDS
    )
    did: Join = "return" if state_of("start_parked_replica") in entered else "build"
    if any(one.__name__ in status for one in (StorageNotWarm, ReplicaWorseThanPeers)):
        raise NotProven(status)
    if not status.startswith("SUCCEEDED") or did != kind:
        raise RoundFailed(f"scale_out ({kind} wanted, {did} done): {status}")
    touched = (entered[state_of("register_replica")], ended + 1.0)
    return Change(kind, started, entered[state_of("ramp_traffic")], ended, touched, entered)


def leave_service(stage: Stage, kind: Leave) -> Change:
    """One scale_in to its end; raises RoundFailed."""
    stage.change_settings({"retirement": {"park": "always" if kind == "park" else "never"}})
    started = time.time()
    status, entered, ended = run_workflow(
        stage, "scale_in", {"reason": f"bench: {kind}"}, RETIRE_LIMIT_SECONDS
    )
    did: Leave = "retire" if state_of("retire_replica") in entered else "park"
    if not status.startswith("SUCCEEDED") or did != kind:
        raise RoundFailed(f"scale_in ({kind} wanted, {did} done): {status}")
    touched = (entered[state_of("deregister_replica")], ended + 1.0)
    return Change(kind, started, entered[state_of("record_receipt")], ended, touched, entered)


def _quiet() -> Window:
    start = time.time()
    time.sleep(STEADY_SECONDS)
    return start, time.time()
