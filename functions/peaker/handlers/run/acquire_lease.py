"""Lambda function AcquireLease."""

from __future__ import annotations

from peaker.domain.runs.run import RequestedStep
from peaker.runtime.step import step
from peaker.usecases.run.acquire_lease import acquire_lease

handler = step(acquire_lease, RequestedStep)
