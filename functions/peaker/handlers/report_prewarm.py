"""Lambda function ReportPrewarm."""

from __future__ import annotations

from peaker.domain.run import StepInput
from peaker.runtime.step import step
from peaker.usecases.report_prewarm import report_prewarm

handler = step(report_prewarm, StepInput)
