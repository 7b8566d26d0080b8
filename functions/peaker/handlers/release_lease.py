"""Lambda function ReleaseLease."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import unrecorded
from peaker.usecases.release_lease import release_lease

handler = unrecorded(release_lease, StepInput)
