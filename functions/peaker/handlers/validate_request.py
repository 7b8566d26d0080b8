"""Lambda function ValidateRequest."""

from __future__ import annotations

from peaker.runtime.step import validation
from peaker.usecases.validate_request import validate_request

handler = validation(validate_request)
