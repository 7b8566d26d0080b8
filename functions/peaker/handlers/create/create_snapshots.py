"""Lambda function CreateSnapshots."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.create_snapshots import create_snapshots

handler = step(create_snapshots, StepInput)
