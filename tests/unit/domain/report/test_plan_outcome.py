"""A plan's lead time against what came of it."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.document.plan import LeadTimeEstimate, ScaleOutPlan
from peaker.domain.report.plan_outcome import PartOutcome, PlanOutcome, plan_outcome
from peaker.domain.runs.ledger import StepRow

from peaker_contract.steps import Method
from sim.workflows.virtual_time import START as NOON
from tests.contract.run_parts import PLAN

LEAD = LeadTimeEstimate(
    seconds=600.0, parts={"donor": 60.0, "hydration": 300.0}, p90_seconds=800.0, p90_parts={"donor": 90.0}
)


def step(name: str, began: float, ended: float | None) -> StepRow:
    """Seconds after the plan."""
    end = None if ended is None else NOON + timedelta(seconds=ended)
    return StepRow(name, NOON + timedelta(seconds=began), end)


def plan(lead: LeadTimeEstimate | None = LEAD) -> ScaleOutPlan:
    return PLAN.model_copy(update={"planned_at": NOON, "lead_time": lead})


def outcome(*own: StepRow, of_batch: tuple[StepRow, ...] = (), serving: float = 900) -> PlanOutcome:
    found = plan_outcome(plan(), Method.BUILD, own, of_batch, NOON + timedelta(seconds=serving))
    assert found is not None
    return found


def test_each_part_stands_beside_what_its_steps_took_together() -> None:
    found = outcome(step("ChooseDonor", 0, 10), step("PrepareDonor", 10, 70), step("ReportPrewarm", 100, 500))
    assert found.parts == (
        PartOutcome(part="donor", planned_seconds=60.0, planned_p90_seconds=90.0, took_seconds=70.0),
        PartOutcome(part="hydration", planned_seconds=300.0, planned_p90_seconds=None, took_seconds=400.0),
    )
    assert (found.planned_seconds, found.planned_p90_seconds, found.took_seconds) == (600.0, 800.0, 900.0)


def test_what_no_step_explains_is_the_time_between_them() -> None:
    """Two that overlap count once; what goes on after it serves does not count."""
    found = outcome(
        step("AwaitSnapshots", 100, 400), step("LaunchReplica", 300, 500), step("RampTraffic", 600, 950)
    )
    assert found.between_steps_seconds == 100 + 100


def test_what_the_batch_did_for_all_counts_for_each_and_another_member_s_steps_do_not() -> None:
    """The first member's rows are the batch's."""
    of_batch = (step("ChooseDonor", 0, 20), step("ReportPrewarm", 100, 700))
    found = outcome(step("ReportPrewarm", 100, 300), of_batch=of_batch)
    assert [(one.part, one.took_seconds) for one in found.parts] == [("donor", 20.0), ("hydration", 200.0)]


def test_a_step_that_has_not_ended_leaves_its_part_unknown() -> None:
    assert [one.took_seconds for one in outcome(step("ReportPrewarm", 100, None)).parts] == [None]


def test_without_an_estimate_or_without_having_served_there_is_nothing_to_compare() -> None:
    assert plan_outcome(plan(None), Method.BUILD, (), (), NOON) is None
    assert plan_outcome(None, Method.BUILD, (), (), NOON) is None
    assert plan_outcome(plan(), Method.BUILD, (), (), None) is None
