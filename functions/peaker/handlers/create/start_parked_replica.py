"""Lambda function StartParkedReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.start_parked_replica import start_parked_replica

handler = step(start_parked_replica, StepInput)
