"""An EventBridge rule that starts something: input, retries, dead-letter queue and alarm together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from peaker_contract.names import undelivered
from stacks.constructs.dead_letters import dead_letter_queue

Target = stepfunctions.IStateMachine | lambda_.IFunction
DELIVERY_ATTEMPTS = 5


class EventRoute(Construct):
    """Delivers an event, or a tick of a schedule, to a workflow or a function; else to a queue with an alarm.

    `payload` is what the target gets: an object, whose values may be `EventField.from_path(...)`, or a part of the
    event; `also` are further targets that get the same. An old event is worse than none, hence
    `longest_age_seconds`: the age up to which it is still delivered.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
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
        for one in (target, *also):
            self.rule.add_target(_target(one, queue, payload, Duration.seconds(longest_age_seconds)))


def _target(
    target: Target,
    queue: sqs.IQueue,
    payload: Mapping[str, object] | events.RuleTargetInput,
    longest_age: Duration,
) -> events.IRuleTarget:
    message = events.RuleTargetInput.from_object(dict(payload)) if isinstance(payload, Mapping) else payload
    if isinstance(target, lambda_.Function):
        return targets.LambdaFunction(
            target,
            event=message,
            dead_letter_queue=queue,
            retry_attempts=DELIVERY_ATTEMPTS,
            max_event_age=longest_age,
        )
    assert isinstance(target, stepfunctions.StateMachine)
    return targets.SfnStateMachine(
        target,
        input=message,
        dead_letter_queue=queue,
        retry_attempts=DELIVERY_ATTEMPTS,
        max_event_age=longest_age,
    )
