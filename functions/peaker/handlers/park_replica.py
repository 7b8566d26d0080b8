"""Lambda function ParkReplica."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.park_replica import park_replica

handler = step(park_replica, StepInput)
