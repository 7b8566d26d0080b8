"""What leaves a function when it fails: one plain sentence with its remedy, under the name that workflows match."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.runtime import step as boundary

from peaker_contract.errors import HostCommandRunning, RetirementRefused, UnexpectedError
from sim.calm import calm_ports
from tests.support.builders import orders


@pytest.fixture(autouse=True)
def _ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary.wiring, "ports", lambda: calm_ports(orders()))


GIVEN = {"run_id": "run-1", "cluster": "orders", "operation": "scale_in", "step": "GuardRetirement"}


def raising(error: Exception) -> Any:
    def use_case(ports: Ports, given: StepInput) -> Summary:
        raise error

    return boundary.step(use_case, StepInput, recorded=True)


def test_an_error_leaves_under_its_name_with_its_remedy() -> None:
    with pytest.raises(RetirementRefused) as told:
        raising(RetirementRefused("the load is too high (I8)"))(GIVEN, None)
    assert str(told.value) == f"the load is too high (I8). {RetirementRefused.remedy}"


def test_a_wait_that_never_ends_says_what_to_do() -> None:
    with pytest.raises(HostCommandRunning, match=r"still running\. It took longer"):
        raising(HostCommandRunning("still running"))(GIVEN, None)


def test_a_defect_is_one_line_with_its_place() -> None:
    with pytest.raises(UnexpectedError) as told:
        raising(KeyError("volumes\nand more"))(GIVEN, None)
    assert "KeyError: 'volumes\\nand more' (test_step_boundary.py:" in str(told.value)
    assert str(told.value).endswith(UnexpectedError.remedy)
    assert "\n" not in str(told.value)


class TestSize:
    """Above 256 KiB Step Functions ends an execution where no Catch sees it, and nothing is undone."""

    @staticmethod
    def saying(answer: Summary) -> Any:
        def use_case(ports: Ports, given: StepInput) -> Summary:
            return answer

        return boundary.step(use_case, StepInput, recorded=True)

    def test_what_a_host_says_stays_out_of_the_state(self) -> None:
        """A host says 23,000 characters at most; several of them reach the receipt by the ledger alone."""
        said = Summary(text="x" * 300_000, numbers={"volumes": ["x" * 300_000]})
        assert len(json.dumps(self.saying(said)(GIVEN, None))) < 10_000

    def test_a_result_that_would_end_the_execution_fails_the_step(self) -> None:
        class Planned(Summary):
            plan: str

        with pytest.raises(UnexpectedError, match="the step's result has"):
            self.saying(Planned(text="plan", plan="x" * 255 * 1024))(GIVEN, None)


def test_an_event_that_is_none_of_ours_is_a_defect_too() -> None:
    with pytest.raises(UnexpectedError, match="ValidationError"):
        raising(AssertionError("not reached"))({"run_id": 1}, None)
