"""Lambda function StartParkedReplica."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.start_parked_replica import start_parked_replica

handler = step(start_parked_replica, StepInput)
