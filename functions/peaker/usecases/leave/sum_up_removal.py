"""SumUpRemoval: how a batch stands once each of its replicas has gone, was put back or was left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.runs.batch import Batch, Member, outcome_of_removal
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunReplica, RunRow
from peaker.domain.runs.run import Outcome, StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import member_rows

_NOBODY = Failure(failed_step="SumUpRemoval", error="None", cause="no member has failed")
_UNSAID = Failure(
    failed_step="RemoveReplicas", error="MemberLeft", cause="a member ended without a word; its undo follows"
)


class RemovalSummedUp(Summary):
    """`failure` is the first one of a member, else why the guard left the first one alone.

    `disposal` is park where all that are gone stand parked.
    """

    outcome: Outcome
    failure: Failure
    disposal: Literal["park", "retire"]


def sum_up_removal(ports: Ports, step: StepInput) -> RemovalSummedUp:
    """Reads the members' rows alone: the same call again says the same."""
    batch = ports.ledger.run(step.run_id).required(Batch, step.step)
    rows = member_rows(ports, batch)
    members = {run_id: found for run_id, row in rows.items() if (found := row.part(Member)) is not None}
    outcome = outcome_of_removal(list(members.values()))
    gone = [rows[run_id] for run_id, one in members.items() if one.state == "gone"]
    return RemovalSummedUp(
        text=f"{len(gone)} of {batch.wanted} are gone",
        outcome=outcome,
        failure=_failure(members.values(), outcome),
        disposal="park" if _all_parked(ports, step, gone) else "retire",
        numbers={"outcome": outcome, "members": {one: member.state for one, member in members.items()}},
    )


def _failure(members: Iterable[Member], outcome: Outcome) -> Failure:
    """Returns a member's failure: of one that failed, else of one called off, else of one refused."""
    by_weight = sorted(members, key=lambda one: (one.state == "refused", one.state == "called_off"))
    failures = [one.failure for one in by_weight if one.failure is not None]
    return failures[0] if failures else _UNSAID if outcome == "undo_incomplete" else _NOBODY


def _all_parked(ports: Ports, step: StepInput, gone: Sequence[RunRow]) -> bool:
    rows = ports.ledger.replicas(step.cluster)
    ids = [row.required(RunReplica, step.step).instance_id for row in gone]
    return bool(ids) and all(rows[one].state is ReplicaState.PARKED for one in ids)
