"""The lease that a step works under."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from peaker.domain.runs.ledger import Holder
from peaker.ports.bundle import Ports
from peaker_contract.errors import LeaseHeld, LeaseSettling

# Renewed by every call of every step; the longest pause between two calls is the prewarm poll of 10 minutes.
LEASE_TIME = timedelta(hours=6)
# Of a scheduled function, whose call ends after two minutes; one that was killed keeps nobody waiting for longer.
SHORT_LEASE_TIME = timedelta(minutes=3)

# The longest call that passed its last look at the lease: three tries of a call to AWS (adapters/aws_clients.py) end
# within the 60 s of a function. Only then may another run begin.
LATE_CALL_TIME = timedelta(seconds=60)


def lease_end(now: datetime) -> datetime:
    """Returns the end of a lease that is taken or renewed now."""
    return now + LEASE_TIME


def give_back(ports: Ports, holder: Holder) -> None:
    """Release it; another run gets it once no call of this one can be under way any more (I6)."""
    ports.lease.release(holder, ports.clock.now() + LATE_CALL_TIME)


class ShortLeases:
    """The lease of a cluster for the seconds of a scheduled function, for one run after the other."""

    def __init__(self, ports: Ports, cluster: str) -> None:
        self._ports = ports
        self._cluster = cluster
        self._before: Holder | None = None

    @contextmanager
    def held(self, run_id: str, operation: str) -> Iterator[Holder]:
        """Holds the lease with a new token. Raises LeaseHeld where another run has it, or has just given it
        back (I6).

        `operation` is one of SHORT_OPERATIONS: a run that begins meanwhile waits instead of being refused.
        """
        now = self._ports.clock.now()
        held = self._ports.lease.current(self._cluster, now)
        if held is not None and held.run_id != run_id:
            raise LeaseHeld(f"{held.operation} {held.run_id} holds the lease; the next look does it (I6)")
        until = now + SHORT_LEASE_TIME
        try:
            holder = self._ports.lease.acquire(
                self._cluster, run_id, operation, now, until, fence=True, after=self._before
            )
        except LeaseSettling as settling:
            raise LeaseHeld(f"{settling}; the next look does it") from settling
        self._before = holder
        try:
            yield holder
        finally:
            give_back(self._ports, holder)
