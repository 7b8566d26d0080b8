"""What of a build passes beside what. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overlap:
    """What passes beside what, in a build. Seconds.

    A database starts after `hot_share` of the hydration; its start passes beside the rest of it, and the replica
    catches up beside what is then left and beside the benchmark.
    """

    hot_share: float = 1.0
    recovery_seconds: float = 0.0
    benchmark_seconds: float = 0.0

    def beside(self, hydration_seconds: float) -> float:
        """Of the database's start, what passes while the volumes are read."""
        return min(self.recovery_seconds, hydration_seconds * (1 - self.hot_share))

    def left(self, catch_up_seconds: float, hydration_seconds: float) -> float:
        """Of the catch-up, what is still to be waited for when the volumes are proven warm."""
        rest = hydration_seconds * (1 - self.hot_share) - self.beside(hydration_seconds)
        return max(0.0, catch_up_seconds - rest - self.benchmark_seconds)
