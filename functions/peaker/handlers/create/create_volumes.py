"""Lambda function CreateVolumes."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.create_volumes import create_volumes

handler = step(create_volumes, StepInput)
