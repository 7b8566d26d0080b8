"""The price of a replica that was built: the plan's, with the type of instance that had room. Pure."""

from __future__ import annotations

from peaker.domain.document.plan import Price, ScaleOutPlan
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run_memory import Placement


def price_of_build(run: RunRow) -> Price | None:
    """What the replica of the run costs: at the price of the type that had room. None for a run without a plan."""
    plan, placement = run.part(ScaleOutPlan), run.part(Placement)
    if plan is None or placement is None or placement.instance_type is None:
        return None if plan is None else plan.price
    return plan.price_with(placement.instance_type)
