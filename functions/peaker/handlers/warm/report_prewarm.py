"""Lambda function ReportPrewarm."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.warm.report_prewarm import report_prewarm

handler = step(report_prewarm, StepInput)
