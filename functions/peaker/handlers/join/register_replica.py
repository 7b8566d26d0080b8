"""Lambda function RegisterReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.register_replica import register_replica

handler = step(register_replica, StepInput)
