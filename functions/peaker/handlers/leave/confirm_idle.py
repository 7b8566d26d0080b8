"""Lambda function ConfirmIdle."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.confirm_idle import confirm_idle

handler = step(confirm_idle, StepInput)
