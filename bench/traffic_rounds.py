"""Replicas come and go under load: joins by building and by return, retirements by parking and for good."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from bench.traffic_cluster import Say, Stage, run_workflow
from bench.traffic_figures import Window

BUILD_LIMIT_SECONDS, RETIRE_LIMIT_SECONDS = 300.0, 180.0
STEADY_SECONDS = 5.0

Join = Literal["build", "return"]
Leave = Literal["park", "retire"]


class RoundFailed(Exception):
    """A workflow did not do its work; the message says which and why."""


@dataclass(frozen=True)
class Change:
    """One join or retirement. Times are epoch seconds; `touched` is while clients could notice it."""

    kind: Join | Leave
    started_at: float
    ended_at: float
    touched: Window

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at


@dataclass(frozen=True)
class Rounds:
    """What was done, and the quiet times between."""

    changes: tuple[Change, ...]
    steady: tuple[Window, ...]

    def seconds(self, kind: Join | Leave) -> list[float]:
        """Durations of the changes of one kind."""
        return [change.seconds for change in self.changes if change.kind == kind]

    def windows(self, *kinds: Join | Leave) -> list[Window]:
        """When clients could notice changes of these kinds."""
        return [change.touched for change in self.changes if change.kind in kinds]


def play(stage: Stage, count: int, builds: int, say: Say) -> Rounds:
    """`count` joins and retirements, `builds` of the joins built anew and spread evenly, the others returned.

    A replica is parked when the next join returns it, and retired when the next join builds.
    """
    kinds = [_kind(number, count, builds) for number in range(count)]
    changes: list[Change] = []
    steady: list[Window] = []
    for number, kind in enumerate(kinds):
        following = kinds[number + 1] if number + 1 < count else "build"
        leave: Leave = "park" if following == "return" else "retire"
        changes.append(join(stage, kind))
        say(f"{number + 1:2}/{count} {kind:6} {changes[-1].seconds:5.1f} s to service")
        steady.append(_quiet())
        changes.append(leave_service(stage, leave))
        say(f"{number + 1:2}/{count} {leave:6} {changes[-1].seconds:5.1f} s")
        steady.append(_quiet())
    return Rounds(tuple(changes), tuple(steady))


def _kind(number: int, count: int, builds: int) -> Join:
    starts_a_share = number * builds // count != (number - 1) * builds // count
    return "build" if starts_a_share else "return"


def join(stage: Stage, kind: Join) -> Change:
    """One scale_out to its end; raises RoundFailed, also when it built where it should have returned."""
    started = time.time()
    status, entered, ended = run_workflow(
        stage, "scale_out", {"reason": f"bench: {kind}"}, BUILD_LIMIT_SECONDS
    )
    did: Join = "return" if "StartParkedReplica" in entered else "build"
    if not status.startswith("SUCCEEDED") or did != kind:
        raise RoundFailed(f"scale_out ({kind} wanted, {did} done): {status}")
    return Change(kind, started, ended, (entered["RegisterReplica"], ended + 1.0))


def leave_service(stage: Stage, kind: Leave) -> Change:
    """One scale_in to its end; raises RoundFailed."""
    stage.change_settings({"retirement": {"park": "always" if kind == "park" else "never"}})
    started = time.time()
    status, entered, ended = run_workflow(
        stage, "scale_in", {"reason": f"bench: {kind}"}, RETIRE_LIMIT_SECONDS
    )
    did: Leave = "park" if "ParkReplica" in entered else "retire"
    if not status.startswith("SUCCEEDED") or did != kind:
        raise RoundFailed(f"scale_in ({kind} wanted, {did} done): {status}")
    return Change(kind, started, ended, (entered["DeregisterReplica"], ended + 1.0))


def _quiet() -> Window:
    start = time.time()
    time.sleep(STEADY_SECONDS)
    return start, time.time()
