"""Lambda function AwaitParkedReplica."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.await_parked_replica import await_parked_replica

handler = step(await_parked_replica, StepInput)
