"""Events on the bus: put once, tried again where an entry failed, lost without a word to the run otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.adapters.eventbridge_events import EventBridgeEvents
from peaker.domain.report.event import Event, start_event
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.run import StepInput

from localcloud.server import LocalCloud
from sim.workflows.virtual_time import START as NOON

STEP = StepInput(run_id="scale-out-orders-1", cluster="orders", operation="scale_out", step="AcquireLease")
EVENT = start_event("local", STEP, ExecutionInput(cluster="orders"), NOON)


@pytest.fixture
def bus(ledger_cloud: LocalCloud) -> LocalCloud:
    """A bus with a queue that gets every event of Peaker's."""
    events, sqs = ledger_cloud.client("events"), ledger_cloud.client("sqs")
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.create_queue(QueueName="heard", Attributes={"Policy": policy})
    events.put_rule(Name="heard", EventPattern=json.dumps({"source": ["peaker"]}))
    arn = f"arn:aws:sqs:{ledger_cloud.settings.region}:{ledger_cloud.settings.account_id}:heard"
    events.put_targets(Rule="heard", Targets=[{"Id": "1", "Arn": arn}])
    ledger_cloud.faults.clear()
    return ledger_cloud


def put(bus: LocalCloud) -> list[str]:
    """Puts the event; returns what was lost."""
    lost: list[str] = []
    EventBridgeEvents(bus.client("events"), lost.append).put(EVENT)
    return lost


def heard(bus: LocalCloud) -> dict[str, Any]:
    sqs = bus.client("sqs")
    url = sqs.get_queue_url(QueueName="heard")["QueueUrl"]
    [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return dict(json.loads(message["Body"]))


def test_a_rule_gets_the_document_whole(bus: LocalCloud) -> None:
    assert put(bus) == []
    told = heard(bus)
    assert (told["source"], told["detail-type"], told["time"]) == (
        "peaker",
        "Peaker Run Started",
        "2026-11-21T12:00:00Z",
    )
    assert Event.model_validate(told["detail"]) == EVENT


def test_an_entry_that_is_throttled_alone_is_put_again(bus: LocalCloud) -> None:
    bus.faults.add("events:entry", "ThrottlingException")
    assert put(bus) == []
    assert heard(bus)["detail"]["id"] == EVENT.id


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("events:entry", "ThrottlingException", "ThrottlingException"),
        ("events:entry", "MalformedDetail", "MalformedDetail"),
        ("events:PutEvents", "AccessDeniedException", "AccessDeniedException"),
        ("events:PutEvents", "InternalFailure", "InternalFailure"),
    ],
)
def test_an_event_that_the_bus_does_not_take_is_named_and_raises_nothing(
    bus: LocalCloud, target: str, error: str, said: str
) -> None:
    bus.faults.add(target, error, times=-1)
    [lost] = put(bus)
    assert EVENT.id in lost
    assert said in lost
