"""Lambda function GuardRemoval: CloudFormation's question before a cluster's stack goes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.parser import parse

from peaker.runtime import wiring
from peaker.runtime.step import told
from peaker.runtime.telemetry import logger
from peaker.usecases.leave.guard_removal import RemovalRequest, guard_removal


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Judge and answer; the log has the judgement, never the signed address of the answer."""
    with told():
        given = parse(event=event, model=RemovalRequest)
        with logger.append_context_keys(cluster=given.guarded.cluster, step="GuardRemoval"):
            judged = guard_removal(wiring.ports(), wiring.stack_answers(), given)
            logger.info(judged.text, extra={"status": judged.status})
            return judged.model_dump(mode="json")
