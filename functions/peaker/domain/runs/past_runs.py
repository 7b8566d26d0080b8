"""Durations of a cluster's past runs, by part of the lead time. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from peaker_contract.catalogue import states_of
from peaker_contract.steps import Method, Part

# Older runs say little of a cluster as it is.
MOST_RUNS = 10
# A build and a return do these alike: the runs of both count.
SAME_WORK = (Part.BUFFER_POOL, Part.REGISTRATION, Part.RAMP)


@dataclass(frozen=True)
class PastSteps:
    """A cluster's past runs, the newest last: seconds per state name, and the amounts that they go with.

    `hydrated_bytes`, `hydrated_whole` and `hydrated_rates` are of each prewarm: the bytes that it brought in, whether
    these were all that is used and not the hot set alone, and the MiB/s paid for its volumes, 0 of none, None where
    they differ. `knee_shares` are the IOPS delivered over those promised of each storage proof that reached a volume's
    knee. `full_copies` and `increments` are the seconds of each snapshot set by its kind.
    `pool_bytes` are in each donor's buffer pool. `apply_speeds` and `return_speeds` are seconds of log that a replica
    replayed per second, where it was waited for. `returned` and `return_speeds` are of returns, all else of builds.
    """

    seconds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    hydrated_bytes: Sequence[float] = ()
    knee_shares: Sequence[float] = ()
    full_copies: Sequence[float] = ()
    increments: Sequence[float] = ()
    pool_bytes: Sequence[float] = ()
    apply_speeds: Sequence[float] = ()
    returned: Mapping[str, Sequence[float]] = field(default_factory=dict)
    return_speeds: Sequence[float] = ()
    hydrated_rates: Sequence[float | None] = ()
    hydrated_whole: Sequence[bool] = ()

    def read_bytes(self, serves_hot: bool) -> Sequence[float]:
        """Returns the bytes of the prewarms that tell of the next one: those left at the hot set tell of such a one."""
        if serves_hot or not self.hydrated_whole:
            return self.hydrated_bytes
        return [size for size, whole in zip(self.hydrated_bytes, self.hydrated_whole, strict=True) if whole]


def part_seconds(part: Part, past: PastSteps) -> list[float]:
    """Seconds of a part per past build, the newest last; of returns too, where their work is the same."""
    took = _by_run(states_of(part), past.seconds)
    return [*took, *return_seconds(part, past)][-MOST_RUNS:] if part in SAME_WORK else took


def return_seconds(part: Part, past: PastSteps) -> list[float]:
    """Seconds of a part per past return, the newest last."""
    return _by_run(states_of(part, method=Method.RETURN), past.returned)


def _by_run(states: Sequence[str], seconds: Mapping[str, Sequence[float]]) -> list[float]:
    """The sum over the states that were recorded, the newest run last."""
    columns = [column for state in states if (column := list(seconds.get(state, ()))[-MOST_RUNS:])]
    runs = min((len(column) for column in columns), default=0)
    return [sum(column[len(column) - runs + i] for column in columns) for i in range(runs)]


def reading_seconds(past: PastSteps, total_bytes: float, paid_mib_per_s: float) -> list[float]:
    """Seconds that each past prewarm at this initialization rate, 0 for none, would have taken for `total_bytes`.

    A prewarm whose rate is not known counts at any rate.
    """
    took = part_seconds(Part.HYDRATION, past)
    sizes = list(past.hydrated_bytes)
    rates = [*[None] * max(0, len(sizes) - len(past.hydrated_rates)), *past.hydrated_rates]
    known = list(zip(reversed(took), reversed(sizes), reversed(rates), strict=False))
    return [
        total_bytes * seconds / size
        for seconds, size, rate in reversed(known)
        if size > 0 and seconds > 0 and (rate is None or rate == paid_mib_per_s)
    ]


def replay_seconds(behind_seconds: float, apply_speed: float) -> float:
    """Seconds to replay a backlog of `behind_seconds` at `apply_speed` seconds of binary log per second.

    While the replica replays, the source goes on writing, so the backlog shrinks by apply_speed - 1 each second.
    """
    if apply_speed <= 1:
        raise ValueError(f"a replica that replays {apply_speed} s of log per second never catches up")
    return max(0.0, behind_seconds) / (apply_speed - 1)


def usable_speeds(measured: Sequence[float]) -> list[float]:
    """The newest measured speeds, each held to 1.1 to 100."""
    return [min(100.0, max(1.1, speed)) for speed in list(measured)[-MOST_RUNS:] if math.isfinite(speed)]


def measured_return_speed(past: PastSteps, otherwise: float) -> float:
    """Seconds of binary log that a returning replica replays per second; as builds show it where no return did."""
    speeds = usable_speeds(past.return_speeds or past.apply_speeds)
    return median(speeds) if speeds else otherwise


def rate_of_all(rates: Sequence[float | None]) -> float | None:
    """The one initialization rate that all volumes have, 0 where none is paid for; None where they differ."""
    found = {rate or 0.0 for rate in rates}
    return found.pop() if len(found) == 1 else None
