"""Lambda function RampTraffic."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.ramp_traffic import ramp_traffic

handler = step(ramp_traffic, StepInput)
