"""Lambda function AssembleStorage."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.assemble_storage import assemble_storage

handler = step(assemble_storage, StepInput)
