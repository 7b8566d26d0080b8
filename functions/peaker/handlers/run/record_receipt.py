"""Lambda function RecordReceipt."""

from __future__ import annotations

from peaker.domain.runs.run import RecordStep
from peaker.runtime.step import step
from peaker.usecases.run.record_receipt import record_receipt

handler = step(record_receipt, RecordStep)
