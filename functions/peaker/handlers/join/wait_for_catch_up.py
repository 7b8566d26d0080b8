"""Lambda function WaitForCatchUp."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.wait_for_catch_up import wait_for_catch_up

handler = step(wait_for_catch_up, StepInput)
