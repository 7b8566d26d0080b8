"""What a person types into the console: every wrong input is refused, and the right field is blamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.domain.runs.execution_input import parse_execution_input
from peaker.domain.runs.run import ExecutionRequest
from peaker.usecases.run.validate_request import validate_request

from peaker_contract.errors import InvalidRequest, UnknownCluster
from sim.calm import calm_ports
from tests.support.builders import orders
from tests.support.wrong_inputs import GOOD, WRONG_INPUTS


def validated(workflow: str, given: Any) -> Any:
    request = ExecutionRequest.model_validate(
        {"operation": workflow, "execution_name": "e", "started_at": "2026-11-21T12:00:00Z", "input": given}
    )
    return validate_request(calm_ports(orders(), orders(name="payments-eu")), request)


LINK = "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"


def test_the_link_to_the_workflow_that_started_it_is_no_field_of_ours() -> None:
    """Step Functions' console shows the parent of an execution by it; CDK adds it with `associateWithParent`."""
    assert parse_execution_input({**GOOD, LINK: "arn:aws:states:us-east-1:1:execution:sale:1"}) == (
        parse_execution_input(GOOD)
    )
    assert validated("scale_out", {**GOOD, LINK: "arn"}).request == parse_execution_input(GOOD)
    with pytest.raises(InvalidRequest, match="trigger"):
        parse_execution_input({**GOOD, "trigger": {LINK: "arn"}})
    with pytest.raises(InvalidRequest, match=LINK.lower()):
        parse_execution_input({**GOOD, LINK.lower(): "arn"})


@pytest.mark.parametrize(
    ("workflow", "given", "fields"),
    WRONG_INPUTS,
    ids=[f"{number}-{json.dumps(one[1])[:40]}" for number, one in enumerate(WRONG_INPUTS)],
)
def test_a_wrong_input_is_refused_with_a_line_for_each_wrong_field_and_no_other(
    workflow: str, given: Any, fields: set[str]
) -> None:
    with pytest.raises((InvalidRequest, UnknownCluster)) as refused:
        validated(workflow, given)
    lines = str(refused.value).splitlines()
    assert {line.split(": ")[0] for line in lines} == fields
    assert len(lines) == len(fields)
    for line in lines:
        assert "given" in line or "no such field" in line
        assert any(word in line.lower() for word in ("allowed", "leave the field out", "clusters of")), line
        assert len(line) < 300
    for jargon in ("instance of", "ExecutionInput", "valid string", "pydantic", "Traceback"):
        assert jargon not in str(refused.value)


@pytest.mark.parametrize(
    ("workflow", "given", "text"),
    [
        ("scale_out", {"clutser": "orders"}, "clutser: no such field; did you mean cluster?"),
        (
            "scale_out",
            {**GOOD, "mode": "PLAN"},
            'mode: given "PLAN"; allowed is "act" or "plan". Did you mean "plan"?',
        ),
        ("scale_out", {"cluster": "ordres"}, "Did you mean orders?"),
        (
            "scale_out",
            {**GOOD, "count": 99},
            "count: given 99; allowed is a whole number from 1 to 3, max_replicas of",
        ),
        (
            "scale_in",
            {**GOOD, "count": 2, "replica": "i-0123456789abcdef0"},
            "count: given 2; replica names the one that is to go: leave the field out",
        ),
        ("scale_in", {**GOOD, "counts": 2}, "Allowed are cluster, mode, count, replica, reason, trigger"),
        ("scale_out", "orders", 'input: given "orders"; allowed is an object such as {"cluster": "orders"}'),
        ("scale_out", {**GOOD, "count": True}, "count: given true;"),
        ("scale_out", {**GOOD, "reason": "x" * 1000}, "... (1,002 characters)"),
    ],
)
def test_a_line_says_what_was_given_and_what_is_allowed(workflow: str, given: Any, text: str) -> None:
    with pytest.raises((InvalidRequest, UnknownCluster)) as refused:
        validated(workflow, given)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("workflow", "given"),
    [
        ("scale_out", {**GOOD, "count": 2, "reason": "Große Aktion; 'quoted' & \"double\""}),
        ("scale_out", {**GOOD, "trigger": {"kind": "alarm", "alarm": "a", "reason": "x" * 1023,
                                           "at": "2026-11-21T01:40:00Z"}}),
        ("scale_out", {**GOOD, "trigger": {"kind": "schedule", "at": "2026-11-21T01:40:00+00:00"}}),
        ("scale_in", {**GOOD, "replica": "i-0a770001", "mode": "plan"}),
    ],
)  # fmt: skip
def test_a_right_input_is_taken(workflow: str, given: Any) -> None:
    assert validated(workflow, given).cluster == "orders"
