"""Lambda function AcquireLease."""

from __future__ import annotations

from peaker.domain.run import RequestedStep
from peaker.runtime.step import step
from peaker.usecases.acquire_lease import acquire_lease

handler = step(acquire_lease, RequestedStep)
