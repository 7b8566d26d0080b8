"""This decision allows a cluster's stack to be removed: nobody tends a replica whose settings, alarms and
routes are gone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import LeaseRow, RunRow

from peaker_contract.names import OWNER_TAG

_NAMED = 5


@dataclass(frozen=True)
class RemovalSight:
    """The sight holds the cluster's state in ledger, EC2 and EventBridge. `lease` None: no run is at work;
    `starting_rules`: the enabled rules that start runs.
    """

    cluster: str
    rows: Mapping[str, ReplicaRow]
    instances: Sequence[Instance]
    lease: LeaseRow | None
    unfinished: Sequence[RunRow]
    starting_rules: Sequence[str]


def why_not_removed(sight: RemovalSight) -> tuple[str, ...]:
    """Each reason with its remedy; none where the stack may go.

    A parked replica counts, and so does one that only EC2 knows of: both cost money, and nobody would end them.
    """
    by_state = {
        state: sorted(row.instance_id for row in sight.rows.values() if row.state is state)
        for state in ReplicaState
        if state is not ReplicaState.RETIRED
    }
    known = {one for ids in by_state.values() for one in ids}
    unknown = sorted(
        one.instance_id for one in sight.instances if OWNER_TAG in one.tags and one.instance_id not in known
    )
    left = [f"{state.value.replace('_', ' ')}: {_some(ids)}" for state, ids in by_state.items() if ids]
    if unknown:
        left.append(f"known to EC2 alone: {_some(unknown)}")
    at_work = {run.run_id for run in sight.unfinished} | ({sight.lease.run_id} if sight.lease else set())
    reasons = {
        f"replicas that Peaker made are left ({'; '.join(left)}): "
        "retire them (docs/runbooks/retire-replica-now.md)": left,
        f"at work: {_some(sorted(at_work))}: wait until it has ended (peaker status)": at_work,
        f"a run may begin by {_some(sight.starting_rules)}: "
        f"peaker pause {sight.cluster} (docs/runbooks/stop-everything.md)": sight.starting_rules,
    }
    return tuple(text for text, found in reasons.items() if found)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"
