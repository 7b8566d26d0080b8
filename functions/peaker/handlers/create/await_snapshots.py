"""Lambda function AwaitSnapshots."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.create.await_snapshots import await_snapshots

handler = step(await_snapshots, StepInput)
