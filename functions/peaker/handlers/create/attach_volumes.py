"""Lambda function AttachVolumes."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.attach_volumes import attach_volumes

handler = step(attach_volumes, StepInput)
