"""Lambda function AwaitSnapshots."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.await_snapshots import await_snapshots

handler = step(await_snapshots, StepInput)
