"""How long a replica replays what it is behind by. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from peaker.domain.planning.learning.drawing import MOST_RUNS


def catch_up_seconds(behind_seconds: float, apply_speed: float) -> float:
    """Seconds to replay a backlog of `behind_seconds` at `apply_speed` seconds of binary log per second.

    While the replica replays, the source goes on writing, so the backlog shrinks by apply_speed - 1 each
    second.
    """
    if apply_speed <= 1:
        raise ValueError(f"a replica that replays {apply_speed} s of log per second never catches up")
    return max(0.0, behind_seconds) / (apply_speed - 1)


def usable_speeds(measured: Sequence[float]) -> list[float]:
    """The newest measured speeds, each held to 1.1 to 100."""
    return [min(100.0, max(1.1, speed)) for speed in list(measured)[-MOST_RUNS:] if math.isfinite(speed)]


def replay_times(behind_seconds: float, measured: Sequence[float]) -> list[float]:
    """What past replicas would take for this backlog, each at its own speed."""
    return [catch_up_seconds(behind_seconds, one) for one in usable_speeds(measured)]
