"""An approval on the local cloud: the real states, roles and tokens, and the answer that the command sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from peaker.adapters.dynamodb.approvals import DynamoDbApprovals
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.domain.runs.approval import ApprovalRow
from peaker_cli.approval.answer import Reply, send_answer
from peaker_cli.failures import ControlPlaneError

from tests.support.refusals import assert_refused
from tests.support.workflow_cloud import NAMES, TABLE, Cluster, WorkflowCloud

LIMITS = {"max_hourly_cost_usd": 10.0, "minimum_lifetime_minutes": 60, "prewarm_deadline_minutes": 2880}
ALWAYS = {**LIMITS, "approval": "always", "approval_minutes": 720}
# Half a real second.
IMPATIENT = {**ALWAYS, "approval_minutes": 5}


@dataclass
class Mailbox:
    """A queue that is subscribed to the operators' topic, as their mail server is."""

    cloud: WorkflowCloud
    url: str

    def mails(self) -> list[str]:
        """What came since the last look."""
        found = self.cloud.client("sqs").receive_message(QueueUrl=self.url, MaxNumberOfMessages=10)
        return [json.loads(one["Body"])["Message"] for one in found.get("Messages", [])]


@pytest.fixture
def mailbox(cloud: WorkflowCloud) -> Iterator[Mailbox]:
    sqs, sns = cloud.client("sqs"), cloud.client("sns")
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    url = sqs.create_queue(QueueName="operators-mailbox", Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    subscription = sns.subscribe(TopicArn=NAMES.operator_topic_arn, Protocol="sqs", Endpoint=arn)
    yield Mailbox(cloud, url)
    sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    sqs.delete_queue(QueueUrl=url)


def approvals(cloud: WorkflowCloud) -> DynamoDbApprovals:
    return DynamoDbApprovals(LedgerTable(cloud.client("dynamodb"), TABLE))


def answer(cloud: WorkflowCloud, run: str, refusal: str | None = None) -> ApprovalRow:
    """As `peaker approve` and `peaker refuse` send it."""
    reply = Reply("arn:aws:iam::123456789012:user/kim", refusal)
    return send_answer(approvals(cloud), cloud.client("stepfunctions"), run, reply, cloud.cloud.clock.now)


def waiting(cloud: WorkflowCloud, cluster: Cluster, **given: Any) -> tuple[str, str]:
    """The execution and the run that waits; the operators were told."""
    execution = cloud.start("scale_out", {"cluster": cluster.name, **given})

    def told() -> bool:
        row = approvals(cloud).newest(cluster.name)
        return row is not None and row.told_at is not None

    cloud.eventually(told)
    row = approvals(cloud).newest(cluster.name)
    assert row is not None
    return execution, row.run_id


def test_a_yes_to_the_message_builds_the_replica(cloud: WorkflowCloud, mailbox: Mailbox) -> None:
    cluster = cloud.cluster(limits=ALWAYS)
    execution, run = waiting(cloud, cluster)
    assert (cloud.lease_is_free(cluster), cloud.made_by_peaker(cluster)) == (True, [])
    [text] = mailbox.mails()
    assert f"peaker approve {run} --env local" in text
    answer(cloud, run)
    ended = cloud.finish(execution)
    assert cloud.last_state(ended) == "ReplicaInService", ended
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
    assert cloud.rows(f"run#{run}"), "its rows are under the run that asked"
    with pytest.raises(
        ControlPlaneError, match=r"which was approved at .* \(arn:aws:iam::123456789012:user/kim\)"
    ):
        answer(cloud, run, refusal="too late")


def test_a_no_ends_the_run_with_the_reason(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(limits=ALWAYS)
    execution, run = waiting(cloud, cluster)
    answer(cloud, run, refusal='the "sale" was moved')
    ended = cloud.finish(execution)
    assert_refused(
        cloud, ended, "ApprovalRefused", 'the "sale" was moved (by arn:aws:iam::123456789012:user/kim)'
    )
    assert cloud.made_by_peaker(cluster) == []


def test_without_an_answer_the_run_is_refused_and_the_token_is_worth_nothing(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(limits=IMPATIENT)
    ended = cloud.run("scale_out", {"cluster": cluster.name})
    assert_refused(cloud, ended, "ApprovalExpired", "nobody answered until")
    row = approvals(cloud).newest(cluster.name)
    assert row is not None
    assert row.answer == "expired"
    stepfunctions = cloud.client("stepfunctions")
    with pytest.raises(stepfunctions.exceptions.TaskTimedOut):
        stepfunctions.send_task_success(taskToken=row.task_token, output="{}")


def test_an_output_that_the_command_does_not_send_is_no_yes(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(limits=ALWAYS)
    execution, _ = waiting(cloud, cluster)
    row = approvals(cloud).newest(cluster.name)
    assert row is not None
    cloud.client("stepfunctions").send_task_success(taskToken=row.task_token, output='"approved"')
    assert_refused(cloud, cloud.finish(execution), "ApprovalRefused", "not one that `peaker approve` sends")


def test_one_that_is_stopped_while_it_waits_can_be_answered_no_more(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(limits=ALWAYS)
    execution, run = waiting(cloud, cluster)
    cloud.client("stepfunctions").stop_execution(executionArn=execution)
    with pytest.raises(ControlPlaneError, match="waits no more"):
        answer(cloud, run)
    another, later = waiting_again(cloud, cluster, run)
    answer(cloud, later, refusal="enough")
    assert_refused(cloud, cloud.finish(another), "ApprovalRefused", "enough")


def test_one_that_is_redriven_after_its_question_was_closed_waits_for_nobody(cloud: WorkflowCloud) -> None:
    """roll_back has closed it: its new token would be stored nowhere, and the run would wait for half a day."""
    cluster = cloud.cluster(limits=ALWAYS)
    execution, run = waiting(cloud, cluster)
    cloud.client("stepfunctions").stop_execution(executionArn=execution)
    approvals(cloud).close(cluster.name, run, "stopped", cloud.cloud.clock.now(), "by hand")
    cloud.client("stepfunctions").redrive_execution(executionArn=execution)
    assert_refused(
        cloud, cloud.finish(execution), "ApprovalExpired", f"the question of {run} is closed (stopped)"
    )
    assert cloud.made_by_peaker(cluster) == []


def waiting_again(cloud: WorkflowCloud, cluster: Cluster, before: str) -> tuple[str, str]:
    """The next run finds that the execution of the one before has ended, and asks."""
    execution = cloud.start("scale_out", {"cluster": cluster.name})

    def told() -> bool:
        row = approvals(cloud).newest(cluster.name)
        return row is not None and row.run_id != before and row.told_at is not None

    cloud.eventually(told)
    row = approvals(cloud).newest(cluster.name)
    assert row is not None
    return execution, row.run_id
