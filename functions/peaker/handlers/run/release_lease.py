"""Lambda function ReleaseLease."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import unrecorded
from peaker.usecases.run.release_lease import release_lease

handler = unrecorded(release_lease, StepInput)
