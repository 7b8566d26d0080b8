"""A batch: one run that brings several replicas into service, or takes several out of it, and its members. Pure.

The run `R` has the lease, and of a `scale_out` the donor and the snapshot set. Its first member works in the run's own
rows, the others in rows of their own, `R-2`, `R-3`: steps, resources and tags are a member's, so that one is undone
without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from peaker.domain.runs.execution_input import Operation
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import RunPart, RunRow
from peaker.domain.runs.run import Outcome
from peaker_contract.errors import LedgerInconsistent
from peaker_contract.steps import Method

# What fails is tried again as another member, until so many times the wanted replicas have begun: of as many as one run
# brings at most, their starts fit into the history of one execution.
TRIES = 2

# They are iterations of one inline Map, of which Step Functions runs so many at once; one more would begin when another
# has ended, a lead time later (Step Functions guide, "Using Map state in Inline mode").
MOST_WANTED = 40

MemberState = Literal["at_work", "in_service", "gone", "refused", "called_off", "left"]


class Batch(RunPart):
    """A batch has the run's wanted number and its members by the round in which they began.

    What is missing is tried again for as long as it would serve by `deadline`. For those that are to go that is when
    they were chosen: what stays in service is no shortage.
    """

    ledger_name = "batch"

    wanted: int
    deadline: datetime
    rounds: tuple[tuple[str, ...], ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """Run ids, in the order of their numbers."""
        return tuple(member for begun in self.rounds for member in begun)


class Member(RunPart):
    """One replica of a batch. `method` is how it comes; None for one that is to go.

    `gone`: of one that was to come nothing is left; one that was to go is parked or retired. `in_service`: it serves,
    or serves again. `refused`: the guard left one alone that was to go. `called_off`: it was needed while
    it drained and serves again. `left`: its undo did not end.
    """

    ledger_name = "member"

    batch: str
    number: int
    method: Method | None = None
    state: MemberState = "at_work"
    failure: Failure | None = None


def member_run_id(batch: str, number: int) -> str:
    """`R` for the first member, `R-2` for the second."""
    return batch if number == 1 else f"{batch}-{number}"


def batch_of(run: RunRow) -> str:
    """The run whose members were at work side by side; a run without members is its own."""
    try:
        member = run.part(Member)
    except LedgerInconsistent:
        return run.run_id
    return run.run_id if member is None else member.batch


def state_after(operation: Operation, outcome: Outcome) -> MemberState:
    """Returns a member's state after its work or its undo."""
    if outcome == "undo_incomplete":
        return "left"
    if operation == "scale_in" and outcome in ("refused", "called_off"):
        return outcome
    did_its_work = outcome in ("succeeded", "rolled_forward")
    return "in_service" if did_its_work == (operation == "scale_out") else "gone"


def outcome_of(wanted: int, members: Sequence[Member]) -> Outcome:
    """Returns the outcome of a batch whose members have all ended. What serves is never taken away by
    another's failure.
    """
    serving = sum(one.state == "in_service" for one in members)
    if any(one.state in ("left", "at_work") for one in members):
        return "undo_incomplete"
    if serving == 0:
        return "rolled_back"
    if serving < wanted:
        return "partly"
    late = any(one.state == "in_service" and one.failure is not None for one in members)
    return "rolled_forward" if late else "succeeded"


def outcome_of_removal(members: Sequence[Member]) -> Outcome:
    """Returns the outcome of a batch of leaving members that have all ended. One that the guard left alone,
    or that was needed again, is no failure.
    """
    if any(one.state in ("left", "at_work") for one in members):
        return "undo_incomplete"
    gone = [one for one in members if one.state == "gone"]
    back = any(one.state == "in_service" for one in members)
    if not gone:
        called_off = any(one.state == "called_off" for one in members)
        return "rolled_back" if back else "called_off" if called_off else "refused"
    if back:
        return "partly"
    return "rolled_forward" if any(one.failure is not None for one in gone) else "succeeded"
