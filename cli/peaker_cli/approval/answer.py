"""Sends the answer for a run that waits, with the task token that the ledger keeps; Step Functions takes one answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError
from peaker.adapters.dynamodb.approvals import DynamoDbApprovals
from peaker.domain.instants import to_iso
from peaker.domain.runs.approval import REFUSED_BY_A_PERSON, ApprovalRow
from peaker.domain.runs.run import cluster_of

from peaker_cli.failures import ControlPlaneError

# botocore, states:SendTaskSuccess: the token is none, or its try is over: answered, timed out, stopped, or tried again.
NOT_WAITING = frozenset({"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"})


@dataclass(frozen=True)
class Reply:
    """What a person says. `refusal` is None for a yes, else the reason; `by` is who says it, as AWS knows them."""

    by: str
    refusal: str | None = None


def send_answer(
    approvals: DynamoDbApprovals, stepfunctions: Any, run_id: str, reply: Reply, now: Callable[[], datetime]
) -> ApprovalRow:
    """The row that was answered. Raises ControlPlaneError for a run that is unknown, answered, expired or over."""
    row = _waiting(approvals, run_id, now())
    if _sent(stepfunctions, row, reply):
        return row
    # The state was tried again since the row was read: the newest try has another token.
    again = _waiting(approvals, run_id, now())
    if again.task_token != row.task_token and _sent(stepfunctions, again, reply):
        return again
    raise ControlPlaneError(
        f"{run_id} waits no more: it was answered a moment ago, or its execution has ended. Look with "
        f"`peaker status {row.cluster}`"
    )


def _waiting(approvals: DynamoDbApprovals, run_id: str, now: datetime) -> ApprovalRow:
    cluster = cluster_of(run_id)
    row = None if cluster is None else approvals.newest(cluster)
    if cluster is None:
        raise ControlPlaneError(
            f"{run_id!r} is no run of scale_out; `peaker status CLUSTER` names the one that waits"
        )
    if row is None:
        raise ControlPlaneError(f"{run_id} does not wait for approval: no run of {cluster} ever did")
    if row.run_id != run_id:
        raise ControlPlaneError(
            f"{run_id} does not wait for approval; the newest of {cluster} is {_stands(row, now)}"
        )
    if not row.waits(now):
        raise ControlPlaneError(f"{_stands(row, now)}: start scale_out again if it is still wanted")
    return row


def _stands(row: ApprovalRow, now: datetime) -> str:
    """`scale-out-..., which was refused at ... (too dear)`"""
    if row.waits(now):
        return row.text
    if row.answer in ("waiting", "expired"):
        return f"{row.run_id}, which expired at {to_iso(row.waits_until)}"
    said = f" ({row.said})" if row.said else ""
    at = "" if row.answered_at is None else f" at {to_iso(row.answered_at)}"
    return f"{row.run_id}, which was {row.answer}{at}{said}"


def _sent(stepfunctions: Any, row: ApprovalRow, reply: Reply) -> bool:
    """False where nobody waits at this token."""
    try:
        if reply.refusal is None:
            output = json.dumps({"answer": "approved", "by": reply.by})
            stepfunctions.send_task_success(taskToken=row.task_token, output=output)
        else:
            cause = f"{reply.refusal} (by {reply.by})"
            stepfunctions.send_task_failure(taskToken=row.task_token, error=REFUSED_BY_A_PERSON, cause=cause)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in NOT_WAITING:
            return False
        raise
    return True
