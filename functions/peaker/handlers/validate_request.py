"""Lambda function ValidateRequest."""

from __future__ import annotations

from peaker.domain.run import ExecutionRequest
from peaker.runtime.step import identification
from peaker.usecases.validate_request import validate_request

handler = identification(validate_request, ExecutionRequest)
