"""Lambda function DeregisterReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.deregister_replica import deregister_replica

handler = step(deregister_replica, StepInput)
