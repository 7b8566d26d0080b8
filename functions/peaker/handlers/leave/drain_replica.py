"""Lambda function DrainReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.drain_replica import drain_replica

handler = step(drain_replica, StepInput)
