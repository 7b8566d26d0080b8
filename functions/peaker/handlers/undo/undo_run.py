"""Lambda function UndoRun."""

from __future__ import annotations

from peaker.domain.runs.run import FailedStep
from peaker.runtime.step import step
from peaker.usecases.undo.undo_run import undo_run

handler = step(undo_run, FailedStep)
