"""Lambda function VerifyStorage."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.warm.verify_storage import verify_storage

handler = step(verify_storage, StepInput)
