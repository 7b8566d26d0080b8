"""Lambda function AwaitInstanceOnline."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.await_instance_online import await_instance_online

handler = step(await_instance_online, StepInput)
