"""Lambda function ParkReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.park_replica import park_replica

handler = step(park_replica, StepInput)
