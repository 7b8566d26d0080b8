"""A state machine from its source: expanded, checked, inlined so that linters and diffs see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aws_cdk import Duration
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from stacks.constructs.acknowledgements import role_that_may
from stacks.constructs.keeping import log_group
from stacks.constructs.operator_alarm import OperatorAlarm
from stacks.naming import Names
from stacks.rights.role_statements import workflow_statements
from statemachines import structure
from statemachines.expansion import as_text, expand, in_partition, write_asl


class WorkflowError(Exception):
    """The state machine cannot be deployed; the message has a line per problem: source, state, what and remedy."""


def checked_definition(name: str, callees: Collection[str]) -> tuple[str, set[str]]:
    """The expanded definition of a workflow, and the placeholders in it. It is also written to build/asl/.

    `callees` are the placeholders of what it may call. Raises WorkflowSourceError and WorkflowError.
    """
    machine = expand(name)
    written = write_asl(name, machine)
    if problems := structure.problems(machine, callees):
        lines = (f"statemachines/{name}.yaml: {problem.removeprefix('machine.')}" for problem in problems)
        raise WorkflowError("\n".join((*lines, f"expanded: {written}")))
    return as_text(machine), structure.placeholders(machine)


class Workflow(Construct):
    """One Standard state machine, with logs, traces, its own role and its two alarms.

    `functions` maps placeholders of the definition to function ARNs, `workflows` to state machines (names); it may
    call those that it names, `callees`. One that `undoes` what others left has an alarm on its being stopped, too.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        names: Names,
        functions: Mapping[str, str],
        workflows: Mapping[str, str],
        topic: sns.ITopic | None = None,
        undoes: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        settings = names.environment
        definition, wanted = checked_definition(name, {*functions, *workflows})
        called = {key: arn for key, arn in functions.items() if key in wanted}
        children = {key: child for key, child in workflows.items() if key in wanted}
        self.callees = (*called, *children)
        child_arns = {key: names.state_machine_arn(child) for key, child in children.items()}

        physical_name = names.state_machine(name)
        role, policy = role_that_may(
            self,
            service="states.amazonaws.com",
            description=f"{physical_name}: calls its own functions and child workflows",
            statements=workflow_statements(names, sorted(called.values()), sorted(children.values())),
        )
        self.state_machine = stepfunctions.StateMachine(
            self,
            "StateMachine",
            state_machine_name=physical_name,
            definition_body=stepfunctions.DefinitionBody.from_string(
                in_partition(definition, settings.partition)
            ),
            definition_substitutions={**called, **child_arns},
            role=role.without_policy_updates(),
            tracing_enabled=True,
            logs=stepfunctions.LogOptions(
                destination=log_group(self, names, f"/aws/vendedlogs/states/{physical_name}"),
                level=stepfunctions.LogLevel.ALL,
                # Inputs and results name hosts and load; where state is kept, the ledger alone keeps them.
                include_execution_data=not settings.retain_state,
            ),
        )
        self.state_machine.node.add_dependency(policy)
        ends = [
            ("Failed", "workflow-failed", "failed; its receipt says in which step and why."),
            ("TimedOut", "workflow-timed-out", "ran into its timeout; roll_back undoes it."),
        ]
        if undoes:
            ends.append(("Aborted", "undo-incomplete", "was stopped; what it was to undo may be left."))
        for end, runbook, what in ends:
            stopped = "stopped-" if end == "Aborted" else ""
            OperatorAlarm(
                self,
                "Stopped" if stopped else end,
                name=f"{physical_name}-{stopped}{runbook}",
                summary=f"An execution of {physical_name} {what}",
                runbook=runbook,
                metric=self.state_machine.metric(
                    f"Executions{end}", period=Duration.minutes(5), statistic="Sum"
                ),
                topic=topic,
            )
