"""Lambda function CheckShortage."""

from __future__ import annotations

from peaker.domain.runs.run import PlanStep
from peaker.runtime.step import step
from peaker.usecases.plan.check_shortage import check_shortage

handler = step(check_shortage, PlanStep)
