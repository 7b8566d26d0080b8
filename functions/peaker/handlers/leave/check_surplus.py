"""Lambda function CheckSurplus."""

from __future__ import annotations

from peaker.domain.runs.run import SurplusStep
from peaker.runtime.step import step
from peaker.usecases.leave.check_surplus import check_surplus

handler = step(check_surplus, SurplusStep)
