"""Standstill limits the seconds for which the catch-up may make no progress. Pure: times are arguments (seconds)."""

from __future__ import annotations

from typing import Optional

from peaker_host.database.replica_status import ReplicaStatus

# A source that restarts recovers its redo log first, which takes minutes; the receiver asks it every five seconds.
CONNECTING_SECONDS = 600.0
# A thread that stopped by an error stays so; one that is just being started shows as stopped for a look or two.
STOPPED_SAMPLES = 6


class Standstill:
    """Looks in a row at which a thread did not run, and since when the receiver has been asking for its source."""

    def __init__(self) -> None:
        self._stopped_samples = 0
        self._connecting_since: Optional[float] = None

    def is_final(self, status: Optional[ReplicaStatus], at_seconds: float) -> bool:
        """Take in a look; says whether nothing more can be hoped for. None: the server did not tell."""
        if status is not None and (status.running or status.awaits_source):
            self._stopped_samples = 0
            if status.running:
                self._connecting_since = None
            elif self._connecting_since is None:
                self._connecting_since = at_seconds
            return (
                self._connecting_since is not None
                and at_seconds - self._connecting_since >= CONNECTING_SECONDS
            )
        self._stopped_samples += 1
        return status is not None and self._stopped_samples >= STOPPED_SAMPLES
