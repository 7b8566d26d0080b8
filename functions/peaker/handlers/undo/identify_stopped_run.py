"""Lambda function IdentifyStoppedRun."""

from __future__ import annotations

from peaker.domain.runs.run import StoppedExecution
from peaker.runtime.step import identification
from peaker.usecases.undo.identify_stopped_run import identify_stopped_run

handler = identification(identify_stopped_run, StoppedExecution)
