"""A queue for what could not be delivered, and the alarm on it: never one without the other."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.acknowledgements import acknowledge
from stacks.constructs.operator_alarm import OperatorAlarm

RETENTION = Duration.days(14)


def dead_letter_queue(
    scope: Construct,
    *,
    name: str,
    alarm: str,
    summary: str,
    runbook: str,
    topic: sns.ITopic | None,
    key: kms.IKey | None,
) -> sqs.Queue:
    """Keeps what comes for 14 days; the alarm rings while something lies there."""
    queue = sqs.Queue(
        scope,
        "DeadLetters",
        queue_name=name,
        encryption=sqs.QueueEncryption.SQS_MANAGED if key is None else sqs.QueueEncryption.KMS,
        encryption_master_key=key,
        enforce_ssl=True,
        retention_period=RETENTION,
        removal_policy=RemovalPolicy.DESTROY,
    )
    acknowledge(
        queue, "AwsSolutions-SQS3", "It is itself a dead-letter queue: what lies in it waits for a person."
    )
    OperatorAlarm(
        scope,
        "NotDelivered",
        name=alarm,
        summary=summary,
        runbook=runbook,
        metric=cloudwatch.Metric(
            namespace="AWS/SQS",
            metric_name="ApproximateNumberOfMessagesVisible",
            dimensions_map={"QueueName": name},
            statistic="Maximum",
            period=Duration.minutes(5),
        ),
        topic=topic,
    )
    return queue
