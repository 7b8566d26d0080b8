"""When nobody uses a replica any more that has left its read endpoint.

A sample without a connection proves little: a load balancer gives a draining target new connections for about two
minutes more (containers-roadmap#470), and a client may have come and gone between two samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from peaker.domain.host_results import DrainReport
from peaker.domain.instants import from_iso, seconds_between, to_iso

QUIET_SECONDS = 120.0


@dataclass(frozen=True)
class Quiet:
    """Since when every sample has found no client, and how many client statements had run by then (None: unknown)."""

    since: datetime
    client_statements: int | None

    @classmethod
    def parse(cls, stored: dict[str, object] | None) -> Quiet | None:
        """From what `as_facts` gave; None for nothing."""
        if stored is None:
            return None
        statements = stored["client_statements"]
        return cls(from_iso(str(stored["since"])), None if statements is None else int(str(statements)))

    def as_facts(self) -> dict[str, object]:
        """As it is kept with the run."""
        return {"since": to_iso(self.since), "client_statements": self.client_statements}

    def seconds(self, now: datetime) -> float:
        return seconds_between(self.since, now)


def quiet_after(before: Quiet | None, sample: DrainReport, now: datetime) -> Quiet:
    """The quiet that goes on with this sample, or begins anew with it because somebody is or was there."""
    if before is None or not sample.is_idle or sample.client_statements != before.client_statements:
        return Quiet(now, sample.client_statements)
    return before
