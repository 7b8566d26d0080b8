"""Lambda function StartReplication."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.start_replication import start_replication

handler = step(start_replication, StepInput)
