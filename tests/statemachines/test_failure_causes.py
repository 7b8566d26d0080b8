"""Every end that fails says so in plain text, whatever AWS gave as the cause."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from localcloud.extensions.stepfunctions.jsonata import evaluate
from statemachines.structure import states
from tests.support.workflows import MACHINES

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MESSAGE = 'the "measured" load 150 exceeds 100\nof c:\\data, größer'
TRACE = ['  File "/var/task/peaker/runtime/step.py", line 40, in handler\n    raise']
LAMBDA = json.dumps({"errorMessage": MESSAGE, "errorType": "X", "requestId": "1", "stackTrace": TRACE})
CAUSES = {
    "lambda": ("RetirementRefused", LAMBDA, MESSAGE),
    "lambda-cut-at-the-limit": ("RetirementRefused", LAMBDA[:-20], MESSAGE),
    "lambda-without-spaces": ("X", '{"errorMessage":"told","errorType":"X"}', "told"),
    "killed": (
        "Sandbox.Timedout",
        '{"errorMessage":"Task timed out after 60.00 seconds"}',
        "timed out after 60.00",
    ),
    "no-answer": ("Lambda.Unknown", "Lambda did not return an error type.", "did not return an error type"),
    "timeout": ("States.Timeout", "", "no cause was given"),
    "timeout-without-the-field": ("States.Timeout", None, "no cause was given"),
    "half-json": ("States.Runtime", '{"broken', '{"broken'),
    "plain": ("StorageNotWarm", "VerifyStorage failed (StorageNotWarm): cold", "cold"),
}
ENDS = [
    (name, state.name, state.body)
    for name, machine in MACHINES.items()
    for state in states(machine)
    if state.body["Type"] in {"Fail", "Pass"} and "errorMessage" in json.dumps(state.body)
]
FAILS = [
    (name, state.name, state.body)
    for name, machine in MACHINES.items()
    for state in states(machine)
    if state.body["Type"] == "Fail"
]


def expression(text: str) -> str:
    match = re.fullmatch(r"\{% (.*) %\}", text, re.DOTALL)
    assert match is not None, text
    return match.group(1)


def told(body: dict[str, Any], error: str, cause: str | None) -> str:
    given = {"failed_step": "GuardRetirement", "error": error}
    if cause is not None:
        given["cause"] = cause
    text = body["Cause"] if body["Type"] == "Fail" else body["Output"]["reason"]
    return str(evaluate(expression(text), {"states": {"input": given}}, NOW))


@pytest.mark.parametrize("what", CAUSES.values(), ids=CAUSES.keys())
@pytest.mark.parametrize(("machine", "name", "body"), ENDS, ids=[f"{m}.{n}" for m, n, _ in ENDS])
def test_an_end_says_the_message_and_no_trace(
    machine: str, name: str, body: dict[str, Any], what: tuple[str, str | None, str]
) -> None:
    error, cause, message = what
    said = told(body, error, cause)
    assert message in said
    for raw in ("stackTrace", "errorType", "requestId", "/var/task"):
        assert raw not in said
    if body["Type"] == "Fail" and "." in error:
        assert "start again" in said


@pytest.mark.parametrize(("machine", "name", "body"), FAILS, ids=[f"{m}.{n}" for m, n, _ in FAILS])
def test_no_end_passes_a_cause_on_as_it_came(machine: str, name: str, body: dict[str, Any]) -> None:
    is_branch = name.endswith("BranchFailed")  # read by the function that writes the receipt
    constant = not body["Cause"].startswith("{%")
    sentence = "$states.input.text" in body["Cause"]  # of the function that looked last
    assert is_branch or constant or sentence or "errorMessage" in body["Cause"]


@pytest.mark.parametrize("name", MACHINES)
def test_a_catch_stands_an_error_without_a_cause(name: str) -> None:
    """States.Timeout may come without the field; an undefined expression would end the execution at once."""
    caught = [
        catcher["Output"]
        for state in states(MACHINES[name])
        for catcher in state.body.get("Catch", [])
        if "errorOutput.Cause" in json.dumps(catcher.get("Output"))
    ]
    assert caught
    for text in re.findall(r"\{% [^%]*errorOutput\.Cause[^%]* %\}", json.dumps(caught)):
        found = evaluate(expression(text), {"states": {"errorOutput": {"Error": "States.Timeout"}}}, NOW)
        assert found == ""
