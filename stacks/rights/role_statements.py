"""Role statements of each function and workflow: exactly these are written into the templates.

Free of the CDK, so that the workflows' tests run under the very same statements on the local cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peaker_contract.steps import FunctionDefinition
from stacks.naming import Names
from stacks.rights.data import SEND, data_key_statements
from stacks.rights.hosts import command_statements
from stacks.rights.permissions import statements
from stacks.rights.statement import Statement

# What Step Functions needs to deliver its logs (AWS Step Functions developer guide, "Logging").
_LOG_DELIVERY_ACTIONS = (
    "CreateLogDelivery",
    "GetLogDelivery",
    "UpdateLogDelivery",
    "DeleteLogDelivery",
    "ListLogDeliveries",
    "PutResourcePolicy",
    "DescribeResourcePolicies",
    "DescribeLogGroups",
)


def function_statements(definition: FunctionDefinition, names: Names) -> list[Statement]:
    """Returns a function's rights: its own logs and traces, its failures, its step's calls, and the SSM
    documents that it sends.
    """
    return [
        *_own_failures(definition, names),
        *_own_logs_and_traces(names, names.function(definition.name)),
        *(s for permission in definition.permissions for s in statements(permission, names)),
        *command_statements(definition.sent_documents, names),
    ]


def _own_failures(definition: FunctionDefinition, names: Names) -> list[Statement]:
    """Lambda sends the record of a failed asynchronous invocation as the function's role."""
    if not definition.is_asynchronous:
        return []
    return [
        Statement(("sqs:SendMessage",), (names.failed_invocations_arn,)),
        *data_key_statements(names, "sqs", SEND),
    ]


def _own_logs_and_traces(names: Names, function_name: str) -> list[Statement]:
    return [
        Statement(
            ("logs:CreateLogStream", "logs:PutLogEvents"),
            (names.arn("logs", f"log-group:/aws/lambda/{function_name}:*"),),
            wildcard_reason="The log streams of this function's own log group.",
        ),
        Statement(
            ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
            ("*",),
            wildcard_reason="AWS offers no resource-level permission for writing traces.",
        ),
    ]


def workflow_statements(names: Names, functions: Sequence[str], children: Sequence[str]) -> list[Statement]:
    """Returns the rights of a state machine that invokes these functions (ARNs) and starts these workflows
    (names).
    """
    granted = [
        Statement(
            tuple(f"logs:{action}" for action in _LOG_DELIVERY_ACTIONS),
            ("*",),
            wildcard_reason="AWS offers no resource-level permission for vended log delivery.",
        ),
        Statement(
            (
                "xray:PutTraceSegments",
                "xray:PutTelemetryRecords",
                "xray:GetSamplingRules",
                "xray:GetSamplingTargets",
            ),
            ("*",),
            wildcard_reason="AWS offers no resource-level permission for writing traces.",
        ),
    ]
    if functions:
        granted.append(Statement(("lambda:InvokeFunction",), tuple(functions)))
    for child in children:
        granted += [
            Statement(("states:StartExecution",), (names.state_machine_arn(child),)),
            Statement(
                ("states:DescribeExecution", "states:StopExecution"),
                (names.arn("states", f"execution:{names.state_machine(child)}:*"),),
                wildcard_reason=f"The executions of {child}, which this workflow starts and waits for.",
            ),
        ]
    if children:
        managed_rule = "rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"
        actions = ("events:PutTargets", "events:PutRule", "events:DescribeRule")
        granted.append(Statement(actions, (names.arn("events", managed_rule),)))
    return granted


def policy_document(granted: Sequence[Statement]) -> dict[str, Any]:
    """The statements as an IAM policy."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": list(statement.actions),
                "Resource": list(statement.resources),
                **(
                    {"Condition": {operator: dict(keys) for operator, keys in statement.conditions.items()}}
                    if statement.conditions
                    else {}
                ),
            }
            for statement in granted
        ],
    }
