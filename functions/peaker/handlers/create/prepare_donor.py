"""Lambda function PrepareDonor."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.prepare_donor import prepare_donor

handler = step(prepare_donor, StepInput)
