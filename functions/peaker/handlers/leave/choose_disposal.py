"""Lambda function ChooseDisposal."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.choose_disposal import choose_disposal

handler = step(choose_disposal, StepInput)
