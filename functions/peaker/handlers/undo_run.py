"""Lambda function UndoRun."""

from __future__ import annotations

from peaker.domain.run import FailedStep
from peaker.runtime.step import step
from peaker.usecases.undo_run import undo_run

handler = step(undo_run, FailedStep)
