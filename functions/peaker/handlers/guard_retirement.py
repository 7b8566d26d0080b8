"""Lambda function GuardRetirement."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.guard_retirement import guard_retirement

handler = step(guard_retirement, StepInput)
