"""FindStoppedRuns: start roll_back for every run whose execution ended without an undo.

Scheduled, without a run. The event of an execution's end starts roll_back at once; Step Functions delivers it best
effort, and a roll_back can fail itself. Nothing is written here: roll_back takes the lease over by a new token.
"""

from __future__ import annotations

from datetime import datetime

from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.runs.run import Summary
from peaker.domain.runs.run_execution import judge_lease
from peaker.ports import Ports

# The last digit is cut off. Names of executions end at 80 characters; a run's id at 60.
_TO_TEN_MINUTES = "%Y%m%dT%H%M"


class StoppedRuns(Summary):
    """`taken_up` are the runs that roll_back was started for, `leases` what was found of each held lease."""

    taken_up: tuple[str, ...]
    leases: dict[str, str]


def find_stopped_runs(ports: Ports) -> StoppedRuns:
    """One look at all clusters of the environment."""
    now = ports.clock.now()
    held = [lease for name in ports.clusters.names() if (lease := ports.lease.current(name, now)) is not None]
    rolled_back = ports.executions.being_rolled_back() if held else frozenset()
    found: dict[str, str] = {}
    taken_up: list[str] = []
    for lease in held:
        execution = ports.executions.that_began(lease)
        left = judge_lease(lease, execution, rolled_back, now)
        found[lease.cluster] = left.reason
        if left.take_up and not isinstance(execution, Unknown):
            ports.executions.roll_back(execution, _name(lease, now))
            taken_up.append(lease.run_id)
    text = "; ".join(found.values()) or "no lease is held"
    return StoppedRuns(text=text, taken_up=tuple(taken_up), leases=found)


def _name(lease: LeaseRow, now: datetime) -> str:
    """The same within ten minutes, so that a look that is called twice starts one roll_back."""
    return f"{lease.run_id}-{now:{_TO_TEN_MINUTES}}"[:-1]
