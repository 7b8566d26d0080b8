"""The approval that a run waits for, and the people who are asked: one suite for the fakes and the adapters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.adapters.dynamodb.approvals import DynamoDbApprovals
from peaker.adapters.dynamodb.items import LedgerTable, cluster_key
from peaker.adapters.sns_operators import SnsOperators
from peaker.ports import Approvals, Operators

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world import others
from bench.faults.world.account import Account
from bench.faults.world.table import MemoryTable
from localcloud.server import LocalCloud
from peaker_contract.errors import ApprovalPending, AwsCallRejected, LedgerInconsistent, OperatorsUnreachable
from tests.support.approval_fakes import WAITING, FakeApprovals, FakeOperators
from tests.support.fakes import NOON

LATER = NOON + timedelta(minutes=5)
AFTERWARDS = NOON + timedelta(minutes=61)
OTHER = replace(WAITING, run_id="scale-out-orders-20261121T120500-77aa", task_token="other", asked_at=LATER)


@pytest.fixture(params=["fake", "hostile", "dynamodb"])
def approvals(request: pytest.FixtureRequest) -> Approvals:
    if request.param == "fake":
        return FakeApprovals()
    if request.param == "hostile":
        return DynamoDbApprovals(MemoryTable(Account(), VirtualTime()))
    return DynamoDbApprovals(request.getfixturevalue("ledger_table"))


def test_before_the_first_there_is_none(approvals: Approvals) -> None:
    assert approvals.newest("orders") is None


def test_what_is_asked_comes_back_whole(approvals: Approvals) -> None:
    assert approvals.ask(WAITING) == WAITING
    assert approvals.newest("orders") == WAITING
    assert approvals.newest("carts") is None


def test_another_run_of_the_cluster_is_refused_while_one_waits(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    with pytest.raises(ApprovalPending, match="9f3a waits for approval until 2026-11-21T13:00"):
        approvals.ask(OTHER)
    assert approvals.ask(replace(OTHER, cluster="carts")).cluster == "carts"
    assert approvals.newest("orders") == WAITING


def test_a_later_try_brings_its_token_and_leaves_the_rest(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    approvals.told(WAITING, LATER)
    standing = approvals.ask(replace(WAITING, task_token="second", task_try=1))
    assert standing == replace(WAITING, task_token="second", task_try=1, told_at=LATER)


def test_a_try_that_was_overtaken_changes_nothing(approvals: Approvals) -> None:
    approvals.ask(replace(WAITING, task_token="second", task_try=1))
    standing = approvals.ask(replace(WAITING, task_token="first", task_try=0))
    assert (standing.task_token, standing.task_try) == ("second", 1)


def test_the_same_try_twice_is_the_same(approvals: Approvals) -> None:
    assert approvals.ask(WAITING) == approvals.ask(WAITING) == WAITING


def test_the_first_answer_stays(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    approvals.close("orders", WAITING.run_id, "refused", LATER, "too dear")
    approvals.close("orders", WAITING.run_id, "approved", AFTERWARDS, "somebody")
    assert approvals.newest("orders") == replace(
        WAITING, answer="refused", answered_at=LATER, said="too dear"
    )


def test_the_answer_to_one_run_leaves_the_row_of_another(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    approvals.close("orders", OTHER.run_id, "stopped", LATER, "")
    approvals.told(OTHER, LATER)
    assert approvals.newest("orders") == WAITING


@pytest.mark.parametrize("answer", ["approved", "refused", "expired", "stopped"])
def test_after_an_answer_the_next_run_may_ask_and_nothing_of_the_first_is_left(
    approvals: Approvals, answer: str
) -> None:
    approvals.ask(WAITING)
    approvals.told(WAITING, LATER)
    approvals.close("orders", WAITING.run_id, answer, LATER, "so it is")  # type: ignore[arg-type]
    assert approvals.ask(OTHER) == OTHER
    assert approvals.newest("orders") == OTHER


def test_when_its_time_is_up_the_next_run_may_ask(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    late = replace(OTHER, asked_at=AFTERWARDS, waits_until=AFTERWARDS + timedelta(minutes=60))
    assert approvals.ask(late) == late


def test_instead_of_one_that_waits_no_more_another_may_ask(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    assert approvals.ask(OTHER, instead_of=WAITING.run_id) == OTHER


def test_a_late_try_of_a_run_that_was_answered_changes_nothing(approvals: Approvals) -> None:
    approvals.ask(WAITING)
    approvals.close("orders", WAITING.run_id, "approved", LATER, "")
    standing = approvals.ask(replace(WAITING, task_token="second", task_try=1))
    assert (standing.answer, standing.task_token) == ("approved", WAITING.task_token)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("answer", "maybe"),
        ("reasons", "[1]"),
        ("reasons", '{"reasons": [1]}'),
        ("waits_until", "soon"),
        ("what", 7),
    ],
)
def test_a_row_that_cannot_be_read_is_named(ledger_table: LedgerTable, attribute: str, value: object) -> None:
    approvals = DynamoDbApprovals(ledger_table)
    approvals.ask(WAITING)
    ledger_table.update_if(
        cluster_key("orders"),
        "approval#scale_out",
        f"SET {attribute} = :value",
        "attribute_exists(pk)",
        {":value": value},
    )
    with pytest.raises(LedgerInconsistent, match="the ledger's approval of orders cannot be read"):
        approvals.newest("orders")


@pytest.fixture(params=["fake", "hostile", "sns"])
def told(request: pytest.FixtureRequest) -> tuple[Operators, Callable[[], list[tuple[str, str]]]]:
    """The operators, and what they were sent: subject and text."""
    if request.param == "fake":
        fake = FakeOperators()
        return fake, lambda: fake.sent
    if request.param == "hostile":
        hostile = others.Operators()
        return hostile, lambda: hostile.mails
    return _by_sns(request.getfixturevalue("ledger_cloud"))


def _by_sns(cloud: LocalCloud) -> tuple[Operators, Callable[[], list[tuple[str, str]]]]:
    """A queue stands for the mailbox."""
    sns, sqs = cloud.client("sns"), cloud.client("sqs")
    topic = sns.create_topic(Name="operators")["TopicArn"]
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    url = sqs.create_queue(QueueName="mailbox", Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def mails() -> list[tuple[str, str]]:
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        bodies = [json.loads(one["Body"]) for one in found]
        return [(one["Subject"], one["Message"]) for one in bodies]

    return SnsOperators(sns, topic), mails


def test_the_operators_get_subject_and_text(
    told: tuple[Operators, Callable[[], list[tuple[str, str]]]],
) -> None:
    operators, mails = told
    operators.tell("Peaker prod: scale_out of orders waits for approval", "the plan\nin lines, with an ü")
    assert mails() == [
        ("Peaker prod: scale_out of orders waits for approval", "the plan\nin lines, with an ü")
    ]


def test_where_no_address_is_set_nobody_can_be_told(ledger_cloud: LocalCloud) -> None:
    with pytest.raises(OperatorsUnreachable, match="alarm_email is not set"):
        SnsOperators(ledger_cloud.client("sns"), "").tell("subject", "text")


def test_a_topic_that_is_gone_is_told_with_what_aws_said(ledger_cloud: LocalCloud) -> None:
    gone = "arn:aws:sns:us-east-1:123456789012:gone"
    with pytest.raises(AwsCallRejected, match="sns:Publish: NotFound"):
        SnsOperators(ledger_cloud.client("sns"), gone).tell("subject", "text")
