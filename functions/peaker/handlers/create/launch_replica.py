"""Lambda function LaunchReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.launch_replica import launch_replica

handler = step(launch_replica, StepInput)
