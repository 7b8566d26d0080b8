"""Lambda function StartDatabase."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.join.start_database import start_database

handler = step(start_database, StepInput)
