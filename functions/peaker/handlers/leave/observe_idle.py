"""Lambda function ObserveIdle."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.observe_idle import observe_idle

handler = step(observe_idle, StepInput)
