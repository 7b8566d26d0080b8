"""Which run a stopped execution left, by the event of its end; EventBridge leaves a long input out of it."""

from __future__ import annotations

from typing import Any

import pytest
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run import StoppedExecution, run_id
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.undo.identify_stopped_run import identify_stopped_run

from peaker_contract.errors import NothingToUndo, Throttled
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import orders

NAME = "3f1c"
RUN = run_id("scale_out", "orders", NOON, NAME)
REQUEST = ExecutionInput(cluster="orders", reason="the sale")


def stopped(**changes: Any) -> StoppedExecution:
    detail = {
        "name": NAME,
        "stateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:peaker-test-scale_out",
        "startDate": int(NOON.timestamp() * 1000),
        "status": "ABORTED",
        "input": None,
        "inputDetails": {"included": False},
    }
    return StoppedExecution.model_validate({**detail, **changes})


@pytest.fixture
def ports() -> CalmPorts:
    payments = orders().model_copy(update={"name": "payments"})
    ports = calm_ports(orders(), payments)
    other = "scale-in-payments-20261121T110000-00aa"
    ports.lease.acquire("payments", other, "scale_in", NOON, lease_end(NOON))
    return ports


def held(ports: CalmPorts, *, opened: bool = True, outcome: str = "running") -> None:
    holder = ports.lease.acquire("orders", RUN, "scale_out", NOON, lease_end(NOON))
    ports.world.workflows.plant("scale_out", NAME, "ABORTED")
    if opened:
        ports.ledger.open_run(holder, RunRow(RUN, "orders", "scale_out", NOON, REQUEST))
    if outcome != "running":
        ports.ledger.close_run(holder, outcome, NOON)


def test_an_event_without_the_input_is_told_by_the_execution_s_name(ports: CalmPorts) -> None:
    held(ports)
    found = identify_stopped_run(ports, stopped())
    assert (found.run_id, found.cluster, found.request, found.recorded) == (RUN, "orders", REQUEST, False)


def test_a_run_that_was_stopped_before_it_was_opened_is_found_too(ports: CalmPorts) -> None:
    held(ports, opened=False)
    found = identify_stopped_run(ports, stopped())
    assert (found.run_id, found.request, found.recorded) == (RUN, ExecutionInput(cluster="orders"), False)


def test_a_receipt_that_is_written_is_seen_without_the_input(ports: CalmPorts) -> None:
    held(ports, outcome="succeeded")
    assert identify_stopped_run(ports, stopped()).recorded


def test_an_event_that_was_made_by_hand_undoes_no_run_that_is_at_work(ports: CalmPorts) -> None:
    held(ports)
    ports.world.workflows.plant("scale_out", NAME)
    with pytest.raises(NothingToUndo, match="its execution is RUNNING"):
        identify_stopped_run(ports, stopped())


def test_an_execution_that_is_not_listed_yet_is_asked_for_again(ports: CalmPorts) -> None:
    held(ports)
    ports.world.workflows.executions.clear()
    with pytest.raises(Throttled, match="knows no execution"):
        identify_stopped_run(ports, stopped())


def test_an_execution_that_holds_no_lease_left_nothing(ports: CalmPorts) -> None:
    held(ports)
    with pytest.raises(NothingToUndo, match="holds no lease of orders, payments"):
        identify_stopped_run(ports, stopped(name="another"))
