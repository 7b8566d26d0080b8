"""When nobody uses a replica any more that has left its read endpoint.

A sample without a connection proves little: a load balancer gives a draining target new connections for about two
minutes more (containers-roadmap#470), and a client may have come and gone between two samples.
"""

from __future__ import annotations

from datetime import datetime

from peaker.domain.host_results import DrainReport
from peaker.domain.instants import seconds_between
from peaker.domain.runs.ledger import RunPart

QUIET_SECONDS = 120.0


class Quiet(RunPart):
    """Since when every sample has found no client, and how many client statements had run by then (None: unknown)."""

    ledger_name = "quiet"

    since: datetime
    client_statements: int | None

    def seconds(self, now: datetime) -> float:
        return seconds_between(self.since, now)


def quiet_after(before: Quiet | None, sample: DrainReport, now: datetime) -> Quiet:
    """The quiet that goes on with this sample, or begins anew with it because somebody is or was there."""
    if before is None or not sample.is_idle or sample.client_statements != before.client_statements:
        return Quiet(since=now, client_statements=sample.client_statements)
    return before
