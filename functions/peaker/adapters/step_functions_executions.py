"""Executions of this environment's workflows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker.domain.decoding import parsed_json
from peaker.domain.reading import Unknown
from peaker.domain.runs.run_execution import (
    BegunRun,
    RunExecution,
    began,
    began_after,
    operation_of,
    tells_its_start,
)

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient
    from mypy_boto3_stepfunctions.type_defs import PaginatorConfigTypeDef

ROLL_BACK, SCALE_OUT = "roll_back", "scale_out"
# The longest; without it a page has 100. Hours of hourly starts for hundreds of clusters stand before an older run,
# each look of the sweep asks for each run that is at work, and the account has few calls a second.
_LONG_PAGES: PaginatorConfigTypeDef = {"PageSize": 1000}


class StepFunctionsExecutions:
    """Port Executions. `prefix` and a workflow's name are the ARN of its state machine."""

    def __init__(self, client: SFNClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def that_began(self, run: BegunRun) -> RunExecution | Unknown:
        if not tells_its_start(run):
            return Unknown(f"{run.run_id} does not tell when its execution began")
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._prefix + operation_of(run), PaginationConfig=_LONG_PAGES
        )
        with translated("states:ListExecutions"):
            for page in pages:
                for one in page["executions"]:
                    if began(run, one["name"], one["startDate"]):
                        ended_at = _utc(one.get("stopDate"))
                        return RunExecution(one["name"], one["status"], ended_at, one["executionArn"])
                    # What has ended is listed by its end, what runs by its start: only behind an end nothing is left.
                    if (stopped := one.get("stopDate")) is not None and began_after(run, stopped):
                        return Unknown("Step Functions knows no execution that began it")
        return Unknown("Step Functions knows no execution that began it")

    def start_scale_out(self, name: str, given: Mapping[str, Any]) -> None:
        arn = self._prefix + SCALE_OUT
        with translated("states:StartExecution"):
            try:
                self._client.start_execution(stateMachineArn=arn, name=name, input=json.dumps(given))
            except ClientError as error:
                if error_code(error) != "ExecutionAlreadyExists":
                    raise

    def being_rolled_back(self) -> frozenset[str]:
        pages = self._client.get_paginator("list_executions").paginate(
            stateMachineArn=self._prefix + ROLL_BACK, statusFilter="RUNNING", PaginationConfig=_LONG_PAGES
        )
        with translated("states:ListExecutions"):
            running = [one["executionArn"] for page in pages for one in page["executions"]]
        return frozenset(name for arn in running if (name := self._given_name(arn)))

    def _given_name(self, arn: str) -> str:
        with translated("states:DescribeExecution"):
            text = self._client.describe_execution(executionArn=arn).get("input", "{}")
        try:
            given = parsed_json(text)
        except ValueError:
            return ""
        return str(given.get("name", "")) if isinstance(given, dict) else ""


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
