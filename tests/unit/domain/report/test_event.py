"""Each decision, start, end and refusal is one event of a published form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peaker.domain.report.event import LONGEST_TEXT, Event, start_event, started_by
from peaker.domain.runs.execution_input import ExecutionInput, Trigger
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import ExecutionRequest, RecordStep, RequestedStep
from peaker.usecases.run.acquire_lease import acquire_lease
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.validate_request import validate_request

from peaker_contract.errors import InvalidRequest, LeaseHeld
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import orders

SCHEMA = Path(__file__).resolve().parents[4] / "docs" / "event.schema.json"
ALICE = "arn:aws:sts::123456789012:assumed-role/dba/alice"
IDENTITY = {"run_id": "scale-out-orders-1", "cluster": "orders", "operation": "scale_out"}
REQUEST = ExecutionInput(cluster="orders", reason="a sale", trigger=Trigger(by=ALICE))


def started(ports: CalmPorts, fence: bool = False, **changes: str) -> int:
    """Takes the lease; returns its token."""
    given = {**IDENTITY, "step": "AcquireLease", **changes}
    return acquire_lease(ports, RequestedStep(**given, request=REQUEST, fence=fence)).fencing_token


def test_the_published_schema_is_the_documents() -> None:
    schema = Event.model_json_schema()
    assert json.loads(SCHEMA.read_text()) == schema, (
        f"write this into {SCHEMA.name}:\n{json.dumps(schema, indent=1)}"
    )


def test_a_run_is_told_when_it_starts_and_when_it_has_ended_and_by_whom() -> None:
    ports = calm_ports(orders())
    token = started(ports)
    started(ports, fence=True)  # a fence is no start
    failure = Failure(failed_step="PrepareDonor", error="BufferPoolTimeout", cause="no page list")
    record_receipt(
        ports,
        RecordStep(
            **IDENTITY, step="RecordFailure", fencing_token=token + 1, outcome="rolled_back", failure=failure
        ),
    )
    begun, ended = ports.events.seen
    assert (begun.kind, begun.title, begun.started_by) == ("started", "orders: scale_out started", ALICE)
    assert (ended.kind, ended.outcome, ended.thread) == ("ended", "rolled_back", begun.thread)
    assert ended.text == "PrepareDonor failed (BufferPoolTimeout): no page list"
    assert ended.next == "peaker receipt scale-out-orders-1 --env local"


def test_a_start_that_a_lease_or_a_wrong_input_refuses_is_told() -> None:
    ports = calm_ports(orders())
    started(ports)
    with pytest.raises(LeaseHeld):
        started(ports, run_id="scale-out-orders-2")
    with pytest.raises(InvalidRequest):
        validate_request(
            ports,
            ExecutionRequest(
                operation="scale_out", execution_name="two", started_at=NOON, input={"count": "<!here>"}
            ),
        )
    _, held, wrong = ports.events.seen
    assert (held.kind, held.outcome, held.started_by) == ("refused", "LeaseHeld", ALICE)
    assert (wrong.kind, wrong.outcome, wrong.cluster) == ("refused", "InvalidRequest", None)
    assert "<" not in wrong.text


@pytest.mark.parametrize(
    ("trigger", "who"),
    [
        (Trigger(by=ALICE), ALICE),
        (Trigger(), "the console or an API call (CloudTrail's StartExecution names the caller)"),
        (Trigger(kind="alarm", alarm="short"), "the alarm short"),
        (Trigger(kind="schedule"), "a schedule"),
    ],
)
def test_who_started_it_is_as_its_input_says(trigger: Trigger, who: str) -> None:
    assert started_by(trigger) == who


def test_the_longest_reason_fits_and_stays_one_line() -> None:
    request = ExecutionInput(cluster="orders", trigger=Trigger(kind="alarm", reason="load\n" * 400))
    step = RequestedStep(**IDENTITY, step="AcquireLease", request=request)
    text = start_event("local", step, request, NOON).text
    assert (len(text), "\n" in text) == (LONGEST_TEXT, False)
