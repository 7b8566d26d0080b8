"""Lambda function LoadBufferPool."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.load_buffer_pool import load_buffer_pool

handler = step(load_buffer_pool, StepInput)
