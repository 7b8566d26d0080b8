"""Lambda function RegisterReplica."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.register_replica import register_replica

handler = step(register_replica, StepInput)
