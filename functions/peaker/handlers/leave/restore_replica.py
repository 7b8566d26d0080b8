"""Lambda function RestoreReplica."""

from __future__ import annotations

from peaker.domain.runs.run import FailedStep
from peaker.runtime.step import step
from peaker.usecases.leave.restore_replica import restore_replica

handler = step(restore_replica, FailedStep)
