"""Whether a cluster's stack may be removed: nobody tends a replica whose settings, alarms and routes are gone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import LeaseRow, RunRow
from peaker_contract.tags import OWNER_TAG

_NAMED = 5


@dataclass(frozen=True)
class RemovalSight:
    """What ledger and EC2 have of the cluster. `lease` None: nobody works on it."""

    cluster: str
    rows: Mapping[str, ReplicaRow]
    instances: Sequence[Instance]
    lease: LeaseRow | None
    unfinished: Sequence[RunRow]


@dataclass(frozen=True)
class RemovalJudgement:
    """`reasons` are empty where the stack may go."""

    cluster: str
    reasons: tuple[str, ...]

    @property
    def may_go(self) -> bool:
        return not self.reasons

    @property
    def text(self) -> str:
        if self.may_go:
            return f"{self.cluster}: no replica of Peaker's is left"
        return (
            f"{self.cluster} is not removed: {'; '.join(self.reasons)}. "
            "Retire them first (docs/runbooks/retire-replica-now.md), then remove the stack again"
        )


def judge_removal(sight: RemovalSight) -> RemovalJudgement:
    """A parked replica counts, and so does one that only EC2 knows of: both cost money, and nobody would end them."""
    by_state = {
        state: sorted(row.instance_id for row in sight.rows.values() if row.state is state)
        for state in ReplicaState
        if state is not ReplicaState.RETIRED
    }
    known = {one for ids in by_state.values() for one in ids}
    unknown = sorted(
        one.instance_id for one in sight.instances if OWNER_TAG in one.tags and one.instance_id not in known
    )
    at_work = sorted(
        {run.run_id for run in sight.unfinished} | ({sight.lease.run_id} if sight.lease else set())
    )
    return RemovalJudgement(
        sight.cluster,
        (
            *(
                f"{len(ids)} {state.value.replace('_', ' ')} ({_some(ids)})"
                for state, ids in by_state.items()
                if ids
            ),
            *([f"{len(unknown)} that only EC2 knows of ({_some(unknown)})"] if unknown else []),
            *([f"at work: {_some(at_work)}"] if at_work else []),
        ),
    )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"
