"""Lambda function ChooseDonor."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.choose_donor import choose_donor

handler = step(choose_donor, StepInput)
