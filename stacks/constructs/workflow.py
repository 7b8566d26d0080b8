"""A state machine from its .asl.json file, inlined so that linters and diffs see it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from stacks.constructs.acknowledgements import acknowledge_wildcards
from stacks.constructs.operator_alarm import OperatorAlarm
from stacks.constructs.retention import kept_once_created
from stacks.naming import Names
from stacks.role_statements import workflow_statements

LAMBDA_INVOKE = "arn:aws:states:::lambda:invoke"
START_EXECUTION_AND_WAIT = "arn:aws:states:::states:startExecution.sync:2"
LOG_RETENTION = logs.RetentionDays.THREE_MONTHS

# ${Name} is a substitution. JSONata's own braces are {% ... %}, so the two cannot be mixed up.
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")


class WorkflowError(Exception):
    """The state machine file cannot be deployed; the message says which place and why."""


def placeholders(definition: str) -> set[str]:
    return set(_PLACEHOLDER.findall(definition))


def check_definition(source: str, definition: str, substitutions: Mapping[str, str]) -> None:
    """Check that file and substitutions agree both ways, that there is a timeout, and that every
    integration is one that this construct grants permissions for.

    Raises WorkflowError.
    """
    wanted, given = placeholders(definition), set(substitutions)
    if missing := sorted(wanted - given):
        raise WorkflowError(f"{source}: nothing is substituted for ${{{'}, ${'.join(missing)}}}")
    if unused := sorted(given - wanted):
        raise WorkflowError(f"{source}: no place for ${{{'}, ${'.join(unused)}}}")
    machine = json.loads(definition)
    if "TimeoutSeconds" not in machine:
        raise WorkflowError(f"{source}: TimeoutSeconds is missing at the top level")
    for name, state in tasks(machine):
        if state.get("Resource") not in (LAMBDA_INVOKE, START_EXECUTION_AND_WAIT):
            raise WorkflowError(
                f"{source}: {name} calls {state.get('Resource')}, for which no permission is granted; "
                f"a task calls {LAMBDA_INVOKE} or {START_EXECUTION_AND_WAIT}"
            )


def tasks(machine: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The Task states of a machine, also those inside Parallel and Map states."""
    for name, state in machine.get("States", {}).items():
        if state.get("Type") == "Task":
            yield name, state
        for inner in (*state.get("Branches", ()), state.get("ItemProcessor", {})):
            yield from tasks(inner)


class Workflow(Construct):
    """One Standard state machine, with logs, traces, its own role and its two alarms.

    `functions` maps ASL placeholders to function ARNs, `children` to state machines (names) started with
    startExecution.sync:2. One that `undoes` what others left has an alarm on its being stopped, too.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        path: Path,
        names: Names,
        functions: Mapping[str, str],
        children: Mapping[str, str],
        topic: sns.ITopic | None = None,
        undoes: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        settings = names.environment
        definition = path.read_text(encoding="utf-8")
        child_arns = {key: names.state_machine_arn(child) for key, child in children.items()}
        substitutions = {**functions, **child_arns}
        check_definition(path.name, definition, substitutions)

        physical_name = names.state_machine(name)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description=f"{physical_name}: calls its own functions and child workflows",
        )
        statements = workflow_statements(names, sorted(functions.values()), sorted(children.values()))
        policy = iam.Policy(
            self,
            "Policy",
            statements=[
                iam.PolicyStatement(actions=list(s.actions), resources=list(s.resources)) for s in statements
            ],
        )
        policy.attach_to_role(role)
        acknowledge_wildcards(policy, statements)

        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/vendedlogs/states/{physical_name}",
            retention=LOG_RETENTION,
            removal_policy=kept_once_created(settings.retain_state),
        )
        self.state_machine = stepfunctions.StateMachine(
            self,
            "StateMachine",
            state_machine_name=physical_name,
            definition_body=stepfunctions.DefinitionBody.from_string(definition),
            definition_substitutions=substitutions,
            role=role.without_policy_updates(),
            tracing_enabled=True,
            logs=stepfunctions.LogOptions(
                destination=log_group,
                level=stepfunctions.LogLevel.ALL,
                # Inputs and results name hosts and load; where state is kept, the ledger alone keeps them.
                include_execution_data=not settings.retain_state,
            ),
        )
        self.state_machine.node.add_dependency(policy)
        self._alarms(physical_name, topic)
        if undoes:
            self._stopped_alarm(physical_name, topic)

    def _stopped_alarm(self, physical_name: str, topic: sns.ITopic | None) -> None:
        OperatorAlarm(
            self,
            "Stopped",
            name=f"{physical_name}-stopped-undo-incomplete",
            summary=f"An execution of {physical_name} was stopped; what it was to undo may be left.",
            runbook="undo-incomplete",
            metric=self.state_machine.metric_aborted(period=Duration.minutes(5), statistic="Sum"),
            topic=topic,
        )

    def _alarms(self, physical_name: str, topic: sns.ITopic | None) -> None:
        failed = self.state_machine.metric_failed(period=Duration.minutes(5), statistic="Sum")
        timed_out = self.state_machine.metric_timed_out(period=Duration.minutes(5), statistic="Sum")
        OperatorAlarm(
            self,
            "Failed",
            name=f"{physical_name}-workflow-failed",
            summary=f"An execution of {physical_name} failed; its receipt says in which step and why.",
            runbook="workflow-failed",
            metric=failed,
            topic=topic,
        )
        OperatorAlarm(
            self,
            "TimedOut",
            name=f"{physical_name}-workflow-timed-out",
            summary=f"An execution of {physical_name} ran into its timeout; roll_back undoes it.",
            runbook="workflow-timed-out",
            metric=timed_out,
            topic=topic,
        )
