"""Lambda function CheckSurplus."""

from __future__ import annotations

from peaker.domain.run import SurplusStep
from peaker.runtime.step import step
from peaker.usecases.check_surplus import check_surplus

handler = step(check_surplus, SurplusStep)
