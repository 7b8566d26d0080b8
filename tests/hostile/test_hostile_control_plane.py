"""What others wrote to the control plane, story by story."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from peaker.adapters.cloudwatch.metric_data import measured_points
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.host_results import PrewarmReport, parse_success, typed
from peaker.domain.runs.execution_input import parse_execution_input
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import StoppedExecution
from peaker.domain.storage.prewarm_progress import noticed_after_seconds
from peaker.usecases.undo.identify_stopped_run import identify_stopped_run
from peaker_cli.failures import ControlPlaneError
from peaker_cli.runs.receipt import render_receipt

from peaker_contract.errors import HostCommandFailed, InvalidRequest, LedgerInconsistent, NothingToUndo
from sim.calm import calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.hostile.of_functions import EVENT, SETTINGS, wired
from tests.unit.cli.test_receipt import receipt


def test_an_alarm_before_the_first_year_is_refused_at_the_door() -> None:
    """In UTC it is in no year; the receipt, days later, would fail on it."""
    at = "0001-01-01T00:00:00+23:59"
    with pytest.raises(InvalidRequest, match=r"trigger\.at"):
        parse_execution_input({"cluster": "orders", "trigger": {"kind": "alarm", "at": at}})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_host_s_number_that_is_none_is_a_failed_command(number: str) -> None:
    text = f'{{"version": 1, "ok": true, "state": "running", "eta_seconds": {number}}}'
    with pytest.raises(HostCommandFailed, match="report_prewarm"):
        typed("report_prewarm", PrewarmReport, parse_success("report_prewarm", text))


@pytest.mark.parametrize("eta", [1.0, 59.0, 240.0, 2399.0, 2400.0, 2401.0, 90_000.0])
def test_the_reckoning_is_that_of_pause_after_pause(eta: float) -> None:
    waited = 0.0
    while waited < eta:
        waited += int(min(600, max(60, (eta - waited) / 4)))
    assert abs(noticed_after_seconds(eta) - waited) <= 60


def test_a_host_s_answer_nested_without_end_is_no_answer() -> None:
    with pytest.raises(HostCommandFailed, match="not JSON"):
        parse_success("drain_replica", "[" * 20_000)


def test_a_metric_s_value_that_is_no_number_is_a_missing_point() -> None:
    points = measured_points([NOON, NOON + timedelta(minutes=5)], [float("nan"), 7.0])
    assert points == [(NOON + timedelta(minutes=5), 7.0)]


def test_a_damaged_row_of_the_ledger_is_named() -> None:
    item = wired({"number": 1, "kind": "volume", "name": "data", "state": "made", "details": "{}"})
    pages = SimpleNamespace(paginate=lambda **_: [{"Items": [item]}])
    wire: Any = SimpleNamespace(get_paginator=lambda _: pages)
    with pytest.raises(
        LedgerInconsistent, match=r"a resource in the ledger of run-1 cannot be read: step: Field required"
    ):
        DynamoDbLedger(LedgerTable(wire, "t")).resources("run-1")


def test_a_cause_that_wraps_itself_without_end_is_told() -> None:
    cause = "the end"
    for _ in range(17):
        cause = json.dumps({"Error": "E", "Cause": f"S: {cause}"})[:200_000]
    assert Failure(failed_step="S", error="E", cause=cause).innermost().sentence


@pytest.mark.parametrize("text", ["", "{", "[" * 20_000, "{% $states.input %}"])
def test_an_execution_that_was_given_no_json_has_nothing_to_undo(text: str) -> None:
    stopped = StoppedExecution.model_validate({**EVENT, "input": text})
    with pytest.raises(NothingToUndo, match="input was refused"):
        identify_stopped_run(calm_ports(SETTINGS), stopped)


def test_a_receipt_of_another_release_is_told_to_be_one() -> None:
    damaged = receipt()
    del damaged["started_at"]
    with pytest.raises(
        ControlPlaneError, match=r"receipt \(--json prints it as it is\) cannot be read: 'started_at'"
    ):
        render_receipt(damaged)
