"""Lambda function AssembleStorage."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.assemble_storage import assemble_storage

handler = step(assemble_storage, StepInput)
