"""Lambda function AwaitInstanceOnline."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.await_instance_online import await_instance_online

handler = step(await_instance_online, StepInput)
