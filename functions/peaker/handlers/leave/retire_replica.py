"""Lambda function RetireReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.leave.retire_replica import retire_replica

handler = step(retire_replica, StepInput)
