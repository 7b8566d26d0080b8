"""An EventBridge rule that starts or tells something: input, retries, dead-letter queue and alarm together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from peaker_contract.names import undelivered
from stacks.constructs.dead_letters import dead_letter_queue
from stacks.naming import Names

# The most that EventBridge takes: it gives up at the first of attempts and age, and the age is what a route decides.
DELIVERY_ATTEMPTS = 185


@dataclass(frozen=True)
class SharedFunction:
    """A function of the shared stack, which lets the rules of all clusters call it."""

    name: str


@dataclass(frozen=True)
class SharedWorkflow:
    """A workflow of the shared stack, which has a role by which the rules of all clusters start it."""

    name: str


Target = stepfunctions.StateMachine | lambda_.Function | sns.Topic | SharedFunction | SharedWorkflow


class EventRoute(Construct):
    """Delivers an event, or a tick of a schedule, to a workflow, a function or a topic; else to a queue with an alarm.

    `payload` is what the target gets: an object, whose values may be `EventField.from_path(...)`, or a part of the
    event; `also` are further targets that get the same. An old event is worse than none, hence
    `longest_age_seconds`: the age up to which it is still delivered.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        rule_name: str,
        description: str,
        target: Target,
        payload: Mapping[str, object] | events.RuleTargetInput,
        longest_age_seconds: int,
        pattern: events.EventPattern | None = None,
        schedule: events.Schedule | None = None,
        topic: sns.ITopic | None = None,
        key: kms.IKey | None = None,
        also: Sequence[Target] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        queue = dead_letter_queue(
            self,
            name=undelivered(rule_name),
            alarm=f"{rule_name}-event-not-delivered",
            summary=f"EventBridge could not deliver an event of the rule {rule_name}.",
            runbook="event-not-delivered",
            topic=topic,
            key=key,
        )
        self.rule = events.Rule(
            self,
            "Rule",
            rule_name=rule_name,
            description=description,
            event_pattern=pattern,
            schedule=schedule,
        )
        message = (
            events.RuleTargetInput.from_object(dict(payload)) if isinstance(payload, Mapping) else payload
        )
        for one in (target, *also):
            self.rule.add_target(self._target(one, queue, message, Duration.seconds(longest_age_seconds)))

    def _target(
        self, target: Target, queue: sqs.IQueue, message: events.RuleTargetInput, longest_age: Duration
    ) -> events.IRuleTarget:
        """What is shared is known to a stack once, by its name."""
        options: dict[str, Any] = {
            "dead_letter_queue": queue,
            "retry_attempts": DELIVERY_ATTEMPTS,
            "max_event_age": longest_age,
        }
        stack = Stack.of(self)

        def once(construct_id: str, make: Callable[..., Any], *given: Any, **more: Any) -> Any:
            known = stack.node.try_find_child(construct_id)
            return make(stack, construct_id, *given, **more) if known is None else known

        match target:
            case SharedFunction(name):
                # The shared stack's own permission lets rules call it: a function's policy holds 20 KB, about 60 rules.
                called = once(
                    f"shared-{name}",
                    lambda_.Function.from_function_attributes,
                    function_arn=self._names.function_arn(name),
                    skip_permissions=True,
                    same_environment=False,
                )
                return targets.LambdaFunction(called, event=message, **options)
            case SharedWorkflow(name):
                arn, role_arn = self._names.state_machine_arn(name), self._names.starter_role_arn(name)
                called = once(f"shared-{name}", stepfunctions.StateMachine.from_state_machine_arn, arn)
                role = once(f"starts-{name}", iam.Role.from_role_arn, role_arn, mutable=False)
                return targets.SfnStateMachine(called, input=message, role=role, **options)
            case lambda_.Function():
                return targets.LambdaFunction(target, event=message, **options)
            case sns.Topic():
                return targets.SnsTopic(target, message=message, **options)
            case _:
                return targets.SfnStateMachine(target, input=message, **options)
