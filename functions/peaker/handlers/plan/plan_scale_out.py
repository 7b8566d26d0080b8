"""Lambda function PlanScaleOut."""

from __future__ import annotations

from peaker.domain.runs.run import PlanStep
from peaker.runtime.step import step
from peaker.usecases.plan.plan_scale_out import plan_scale_out

handler = step(plan_scale_out, PlanStep)
