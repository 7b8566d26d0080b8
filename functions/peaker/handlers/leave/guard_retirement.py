"""Lambda function GuardRetirement."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.guard_retirement import guard_retirement

handler = step(guard_retirement, StepInput)
