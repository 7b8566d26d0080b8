"""The Step Functions execution that began a run, as far as Step Functions still knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from peaker.domain.execution_input import Operation
from peaker.domain.ledger import LeaseRow
from peaker.domain.reading import Unknown
from peaker.domain.run import is_run_of, run_id

# The start of the execution in a run's id, to the second.
_STARTED = re.compile(r"-(\d{8}T\d{6})-[0-9a-f]{4}(?:-|$)")
_STAMP = "%Y%m%dT%H%M%S"


@dataclass(frozen=True)
class ExecutionState:
    """`status` is Step Functions' own: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED or PENDING_REDRIVE."""

    name: str
    status: str
    ended_at: datetime | None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def text(self) -> str:
        """`its execution ended: ABORTED at 22 Nov 09:14:03`"""
        at = f" at {self.ended_at:%d %b %H:%M:%S}" if self.ended_at else ""
        return f"its execution ended: {self.status}{at}"


def execution_of(stepfunctions: Any, state_machine_arn: str, lease: LeaseRow) -> ExecutionState | Unknown:
    """The execution whose name and start make the run's id. Executions are forgotten 90 days after their end.

    They are listed newest first, and no further back than the start that the id tells.
    """
    found = _STARTED.search(lease.run_id)
    if found is None:
        return Unknown(f"{lease.run_id} does not tell when its execution began")
    operation: Operation = "scale_in" if lease.operation == "scale_in" else "scale_out"
    pages = stepfunctions.get_paginator("list_executions").paginate(stateMachineArn=state_machine_arn)
    for page in pages:
        for one in page["executions"]:
            started = one["startDate"].astimezone(UTC)
            first = run_id(operation, lease.cluster, started, str(one["name"]))
            if is_run_of(lease.run_id, first):
                return ExecutionState(str(one["name"]), str(one["status"]), _utc(one.get("stopDate")))
            if started.strftime(_STAMP) < found.group(1):
                return Unknown("Step Functions knows no execution that began it")
    return Unknown("Step Functions knows no execution that began it")


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
