"""Lambda function ValidateRequest."""

from __future__ import annotations

from peaker.domain.runs.run import ExecutionRequest
from peaker.runtime.step import identification
from peaker.usecases.run.validate_request import validate_request

handler = identification(validate_request, ExecutionRequest)
