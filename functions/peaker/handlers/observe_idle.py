"""Lambda function ObserveIdle."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.observe_idle import observe_idle

handler = step(observe_idle, StepInput)
