"""What the rows of a run say of volumes that its host wrote: by a direct fill, or by a clone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

from peaker.domain.instants import seconds_between
from peaker.domain.planning.learning.fills import FillFailed, PastFills
from peaker.domain.planning.learning.reading import PastReading
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.runs.batch import Member, fill_failure
from peaker.domain.runs.ledger import RunRow, StepRow
from peaker_contract.errors import LedgerInconsistent
from peaker_contract.steps import Method, Part
from peaker_contract.way_into_service import states_of

HYDRATION = states_of(Part.HYDRATION)


Writing = Literal["fill", "clone", "refill"]


def _writing(member: Member) -> Writing:
    if member.method is Method.REFILL:
        return "refill"
    return "clone" if member.clones else "fill"


def written_plan(run: RunRow) -> ScaleOutPlan | None:
    """The plan of a run that wrote empty volumes; it could be read, or the run would teach nothing."""
    plan = run.part(ScaleOutPlan)
    return plan if plan is not None and plan.starts_empty else None


def with_filled(fills: PastFills, by_name: Mapping[str, StepRow]) -> PastFills:
    """With how long it took for its bytes, where that was measured."""
    seconds = [step_seconds(by_name.get(state)) for state in HYDRATION]
    report = by_name.get(HYDRATION[-1])
    size = None if report is None else report.numbers.get("bytes_read")
    known = [one for one in seconds if one is not None]
    return fills.filled(PastReading(float(size), sum(known))) if known and is_amount(size) else fills


def with_failed(fills: PastFills, run: RunRow, way: Writing) -> PastFills:
    """With the failure of a member that was to be filled so. What refuses to compare snapshots refuses no direct fill:
    neither teaches the other."""
    try:
        member = run.part(Member)
    except LedgerInconsistent:
        return fills
    failure = None if member is None or _writing(member) != way else fill_failure([member])
    return fills if failure is None else fills.not_filled(FillFailed(run.started_at, failure.sentence))


def step_seconds(step: StepRow | None) -> float | None:
    """Seconds of a step that has ended."""
    if step is None or step.finished_at is None:
        return None
    return seconds_between(step.started_at, step.finished_at)


def is_amount(value: Any) -> TypeGuard[float]:
    """Whether it was measured: other releases may have noted something else under its name."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
