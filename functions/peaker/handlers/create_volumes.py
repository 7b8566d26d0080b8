"""Lambda function CreateVolumes."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create_volumes import create_volumes

handler = step(create_volumes, StepInput)
