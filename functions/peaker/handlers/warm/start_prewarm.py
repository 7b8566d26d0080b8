"""Lambda function StartPrewarm."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.warm.start_prewarm import start_prewarm

handler = step(start_prewarm, StepInput)
