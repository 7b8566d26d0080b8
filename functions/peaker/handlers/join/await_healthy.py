"""Lambda function AwaitHealthy."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.await_healthy import await_healthy

handler = step(await_healthy, StepInput)
