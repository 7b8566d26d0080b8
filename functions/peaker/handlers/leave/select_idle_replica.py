"""Lambda function SelectIdleReplica."""

from __future__ import annotations

from peaker.domain.runs.run import SelectStep
from peaker.runtime.step import step
from peaker.usecases.leave.select_idle_replica import select_idle_replica

handler = step(select_idle_replica, SelectStep)
