"""Random plans: what happens in two clusters, and when. Without one of its events the others mean the same."""

from __future__ import annotations

import random
from dataclasses import dataclass

CLUSTERS = ("orders", "carts")
DISTURBED_SECONDS = 3 * 3600
WORK = ("scale_out", "scale_out", "scale_in", "automatic_out", "automatic_in")
# Of one function.
FAULTS = (
    "throttled",
    "unavailable",
    "refused",
    "lost",
    "crash",
    "crash_after",
    "crash_at_end",
    "late",
    "late_unheard",
)
# Of the sweep, which nobody waits for and nobody repeats.
SWEEP_FAULTS = ("sweep_crash", "sweep_crash_after", "sweep_late", "sweep_twice", "sweep_silent")
OTHERS = (
    "stop",
    "stop",
    "stop_undo",
    "lost_event",
    "double_event",
    "terminate",
    "deregister",
    "restart",
    "restart_in_command",
    "detach",
    "delete_volume",
    "delete_snapshot",
    "stop_instance",
    "fail_over",
    "fail_over",
    "outage",
    "outage",
    "full_zone",
    "deploy",
    "deploy_workflows",
)


@dataclass(frozen=True)
class Event:
    """What happens in a cluster from the second `at` on; `number` says which call, which instance, which way."""

    at: int
    what: str
    cluster: str
    number: int

    def __str__(self) -> str:
        return f"{self.at:6d} s  {self.cluster:7} {self.what} {self.number}"


def plan(seed: int) -> tuple[Event, ...]:
    """Some work in each cluster, and as many things that go wrong, most of them while there is work."""
    chance = random.Random(seed)
    work = [_event(chance, chance.choice(WORK)) for _ in range(chance.randint(3, 6))]
    wrong = (*FAULTS, *SWEEP_FAULTS, *OTHERS)
    troubles = [_trouble(chance, chance.choice(wrong), work) for _ in range(chance.randint(1, 6))]
    return tuple(sorted([*work, *troubles], key=lambda one: one.at))


def _event(chance: random.Random, what: str) -> Event:
    return Event(
        chance.randrange(60, DISTURBED_SECONDS), what, chance.choice(CLUSTERS), chance.randrange(1000)
    )


def _trouble(chance: random.Random, what: str, work: list[Event]) -> Event:
    """At any time, or within the forty minutes that a run takes."""
    if chance.random() < 0.4:
        return _event(chance, what)
    of = chance.choice(work)
    at = min(of.at + chance.randrange(2400), DISTURBED_SECONDS - 1)
    return Event(at, what, of.cluster, chance.randrange(1000))
