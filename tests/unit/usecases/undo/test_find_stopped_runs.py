"""The periodic look: executions that ended while their run still holds the lease are rolled back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from peaker.domain.runs.run_execution import EVENT_GRACE, RunExecution
from peaker.usecases.undo.find_stopped_runs import find_stopped_runs

from tests.support.builders import RUN_ID, leased, orders
from tests.support.fakes import NOON, FakePorts, fake_ports

LONG_AGO = NOON - timedelta(hours=1)


@pytest.fixture
def ports() -> FakePorts:
    """A run holds the lease of orders; billing is left alone."""
    made = fake_ports(orders(), orders(name="billing"))
    leased(made, "AcquireLease")
    return made


def execution(ports: FakePorts, status: str, ended_at: object = LONG_AGO) -> None:
    ended = None if status == "RUNNING" else ended_at
    ports.executions.by_run[RUN_ID] = RunExecution("manual-1", status, ended, "arn:manual-1")  # type: ignore[arg-type]


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED", "SUCCEEDED"])
def test_an_execution_that_ended_with_its_lease_is_rolled_back(ports: FakePorts, status: str) -> None:
    execution(ports, status)
    found = find_stopped_runs(ports)
    assert found.taken_up == (RUN_ID,)
    assert list(ports.executions.started.values()) == ["manual-1"]
    assert found.leases == {
        "orders": f"{RUN_ID}: its execution ended: {status} at 21 Nov 11:00:00 without an undo"
    }


def test_the_same_look_twice_starts_one_roll_back_and_a_later_one_another(ports: FakePorts) -> None:
    execution(ports, "FAILED")
    find_stopped_runs(ports)
    find_stopped_runs(ports)
    assert len(ports.executions.started) == 1
    ports.clock.advance(minutes=10)
    find_stopped_runs(ports)
    assert len(ports.executions.started) == 2
    assert all(len(name) <= 80 for name in ports.executions.started)


def test_what_runs_is_left_alone(ports: FakePorts) -> None:
    execution(ports, "RUNNING")
    assert find_stopped_runs(ports).taken_up == ()


def test_what_step_functions_does_not_list_may_have_started_just_now(ports: FakePorts) -> None:
    found = find_stopped_runs(ports)
    assert found.taken_up == ()
    assert "knows no execution" in found.leases["orders"]


def test_the_event_of_the_end_has_time_to_come_first(ports: FakePorts) -> None:
    execution(ports, "ABORTED", NOON)
    assert find_stopped_runs(ports).taken_up == ()
    ports.clock.advance(seconds=EVENT_GRACE.total_seconds())
    assert find_stopped_runs(ports).taken_up == (RUN_ID,)


def test_a_roll_back_at_work_is_not_disturbed(ports: FakePorts) -> None:
    execution(ports, "ABORTED")
    ports.executions.rolling_back.add("manual-1")
    found = find_stopped_runs(ports)
    assert found.taken_up == ()
    assert "roll_back is at work" in found.leases["orders"]
