"""An execution that did not end well goes on where it stood, under its own name and with its variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import Control, control


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=300) as opened:
        yield opened


def entered(aws: Control, execution: str) -> list[str]:
    events = aws.stepfunctions.get_execution_history(executionArn=execution)["events"]
    return [
        event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event
    ]


def test_while_it_runs_again_it_is_listed_by_its_redrive(aws: Control) -> None:
    machine = aws.machine({"Pause": {"Type": "Wait", "Seconds": 900_000, "End": True}})
    first, second = (aws.start(machine, name=name) for name in ("first", "second"))
    aws.stepfunctions.stop_execution(executionArn=first)
    aws.stepfunctions.redrive_execution(executionArn=first)
    listed = aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"]
    assert [one["executionArn"] for one in listed] == [first, second]


def test_one_that_failed_is_at_its_end_again(aws: Control) -> None:
    execution = aws.start(aws.machine({"No": {"Type": "Fail", "Error": "No", "Cause": "on purpose"}}))
    aws.ended(execution)
    aws.stepfunctions.redrive_execution(executionArn=execution)
    assert aws.ended(execution)["error"] == "No"
    assert entered(aws, execution) == ["No", "No"]


def test_one_that_ended_well_or_runs_is_refused(aws: Control) -> None:
    execution = aws.start(aws.machine({"Pause": {"Type": "Wait", "Seconds": 300, "End": True}}))
    for _ in ("while it runs", "at its end"):
        with pytest.raises(ClientError, match="ExecutionNotRedrivable"):
            aws.stepfunctions.redrive_execution(executionArn=execution)
        aws.ended(execution)
