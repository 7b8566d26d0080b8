"""A state machine from its source: expanded, checked, inlined so that linters and diffs see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from stacks.constructs.acknowledgements import acknowledge_wildcards
from stacks.constructs.encryption import data_key
from stacks.constructs.operator_alarm import OperatorAlarm
from stacks.constructs.retention import kept_once_created
from stacks.naming import Names
from stacks.rights.role_statements import workflow_statements
from statemachines import structure
from statemachines.expansion import as_text, expand, in_partition, write_asl

LOG_RETENTION = logs.RetentionDays.THREE_MONTHS


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
    call those that it names. One that `undoes` what others left has an alarm on its being stopped, too.
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
        child_arns = {key: names.state_machine_arn(child) for key, child in children.items()}

        physical_name = names.state_machine(name)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description=f"{physical_name}: calls its own functions and child workflows",
        )
        statements = workflow_statements(names, sorted(called.values()), sorted(children.values()))
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
            encryption_key=data_key(self, names),
            removal_policy=kept_once_created(settings.retain_state),
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
