"""State machines as Step Functions runs them: JSONata, waits on the cloud clock, names, integrations, stops."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import Control, control, eventually
from localcloud.extensions.stepfunctions.jsonata import EvaluationError, evaluate

SCALE = 300


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=SCALE) as opened:
        yield opened


def task(resource: str, arguments: Any, **more: Any) -> dict[str, Any]:
    ending = {} if "Next" in more else {"End": True}
    return {
        "Type": "Task",
        "Resource": f"arn:aws:states:::{resource}",
        "Arguments": arguments,
        "TimeoutSeconds": 300,
        **ending,
        **more,
    }


@pytest.mark.parametrize("asked", [{}, {"MaxConcurrency": 500}], ids=["no-limit", "more-than-there-is"])
def test_the_41st_iteration_of_an_inline_map_begins_when_another_has_ended(
    aws: Control, asked: dict[str, int]
) -> None:
    waiting = {"Wait": {"Type": "Wait", "Seconds": 300, "End": True}}
    inside = {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "Wait", "States": waiting}
    each = {"Type": "Map", "Items": "{% [1..41] %}", "ItemProcessor": inside, **asked, "End": True}
    machine = aws.machine({"Each": each})
    with aws.in_real_time():  # none ends before all that may have begun
        execution = aws.start(machine)
        eventually(lambda: history(aws, execution).count("MapIterationStarted") >= 40)
    aws.ended(execution)
    events = history(aws, execution)
    began = [number for number, event in enumerate(events) if event == "MapIterationStarted"]
    assert len(began) == 41
    assert began[39] < events.index("MapIterationSucceeded") < began[40]


@pytest.mark.parametrize("expression", ["$eval('1')", "1 +", "$sum('a')", "function($x){$x}", "1/0", "$none"])
def test_an_expression_without_json_value_is_an_evaluation_error(aws: Control, expression: str) -> None:
    with pytest.raises(EvaluationError):
        evaluate(expression, {}, aws.cloud.clock.now())


def test_a_wait_for_a_timestamp_reads_the_cloud_clock(aws: Control) -> None:
    started = time.monotonic()
    at = (aws.cloud.clock.now() + timedelta(seconds=900)).strftime("%Y-%m-%dT%H:%M:%SZ")
    aws.run({"Pause": {"Type": "Wait", "Timestamp": at, "End": True}})
    assert 2.0 <= time.monotonic() - started < 300


def test_retries_wait_cloud_seconds_and_back_off(aws: Control) -> None:
    retry = {"ErrorEquals": ["Ec2.Ec2Exception"], "IntervalSeconds": 200, "BackoffRate": 2, "MaxAttempts": 2}
    missing = {"VolumeIds": ["vol-00000000000000000"]}
    started = time.monotonic()
    ended = aws.run({"Ask": task("aws-sdk:ec2:describeVolumes", missing, Retry=[retry])})
    assert ended["status"] == "FAILED"
    assert 2.0 <= time.monotonic() - started < 300  # (200 + 400) / 300


def test_the_timeout_of_a_machine_is_real_seconds(aws: Control) -> None:
    started = time.monotonic()
    ended = aws.run({"Pause": {"Type": "Wait", "Seconds": 180_000, "End": True}}, TimeoutSeconds=1)
    assert ended["status"] == "TIMED_OUT"
    assert 1.0 <= time.monotonic() - started < 300
    assert "stopDate" in ended


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("ExecutionLimitExceeded", "StepFunctions.ExecutionLimitExceeded"),
        ("ThrottlingException", "StepFunctions.AWSStepFunctionsException"),
    ],
)
def test_a_nested_start_that_is_refused_has_the_name_that_aws_gives(
    aws: Control, code: str, name: str
) -> None:
    child = aws.machine({"Give": {"Type": "Pass", "End": True}})
    parent = aws.machine(
        {
            "Pause": {"Type": "Wait", "Seconds": 300, "Next": "Child"},
            "Child": task("states:startExecution.sync:2", {"StateMachineArn": child, "Input": {}}),
        }
    )
    with aws.in_real_time():
        execution = aws.start(parent)
        aws.cloud.faults.add("stepfunctions:StartExecution", code, "Rate exceeded")
    assert aws.ended(execution)["error"] == name


def test_dates_in_a_result_are_text(aws: Control) -> None:
    create = task(
        "aws-sdk:ec2:createVolume", {"AvailabilityZone": "us-east-1a", "Size": 1, "VolumeType": "gp3"}
    )
    created = aws.run({"Create": create})["output"]["CreateTime"]
    assert created.startswith(f"{aws.cloud.clock.now():%Y-}")
    assert created.endswith("Z")


def test_sdk_errors_have_the_names_that_aws_gives(aws: Control) -> None:
    volume = task("aws-sdk:ec2:describeVolumes", {"VolumeIds": ["vol-00000000000000000"]})
    assert aws.run({"Ask": volume})["error"] == "Ec2.Ec2Exception"
    parameter = task("aws-sdk:ssm:getParameter", {"Name": "/nowhere"})
    assert aws.run({"Ask": parameter})["error"] == "Ssm.ParameterNotFoundException"


def test_an_integration_of_another_partition_ends_the_execution_past_its_catch(aws: Control) -> None:
    """As in AWS GovCloud, of a definition that was written for commercial regions: here the other way round."""
    everything = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
    again = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 3}]
    ask = task("aws-sdk:ec2:describeVpcs", {}, Retry=again, Catch=everything)
    elsewhere = {**ask, "Resource": "arn:aws-us-gov:states:::aws-sdk:ec2:describeVpcs"}
    ended = aws.run({"Ask": elsewhere, "Caught": {"Type": "Succeed"}})
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
    assert ended["cause"].endswith(
        "The resource belongs to a different partition from the running execution. "
        "Expected 'aws', was 'aws-us-gov'"
    )
    assert history(aws, ended["executionArn"]).count("TaskFailed") == 1


# -- what a state fails with (failures.py) --------------------------------------------------------------------

FAIL = {"Type": "Fail", "Error": "States.Timeout", "Cause": "of the state before"}


@pytest.mark.parametrize("state", ["Fail", "Parallel", "Map"])
def test_a_fail_state_may_hand_on_any_error_also_out_of_a_branch(aws: Control, state: str) -> None:
    inside = {"StartAt": "Stop", "States": {"Stop": FAIL}}
    as_it_is = {
        "Fail": FAIL,
        "Parallel": {"Type": "Parallel", "Branches": [inside], "End": True},
        "Map": {"Type": "Map", "Items": [1], "ItemProcessor": inside, "End": True},
    }
    ended = aws.run({"First": as_it_is[state]})
    assert (ended["error"], ended["cause"]) == (FAIL["Error"], FAIL["Cause"])


def test_a_functions_error_is_the_tasks_and_the_cause_is_the_text_of_its_answer(aws: Control) -> None:
    function = aws.function("def handler(event, context): return event")
    call = {"FunctionName": function, "Payload": {"a": 1}}
    states = {
        "Call": task(
            "lambda:invoke",
            call,
            Output="{% $states.result.Payload %}",
            Catch=[{"ErrorEquals": ["ReplicaLagging"], "Next": "Caught"}],
        ),
        "Caught": {"Type": "Pass", "Output": "{% $states.input.Cause %}", "End": True},
    }
    assert aws.run(states)["output"] == {"a": 1}
    aws.cloud.faults.add(
        f"lambda:{function.rsplit(':', 1)[1]}", "ReplicaLagging", "9 s behind, größer", times=2
    )
    text = aws.lambda_.invoke(FunctionName=function)["Payload"].read().decode()
    assert aws.run(states)["output"] == text


def test_an_output_that_cannot_be_evaluated_is_caught(aws: Control) -> None:
    function = aws.function("def handler(event, context): return event")
    caught = [{"ErrorEquals": ["States.QueryEvaluationError"], "Next": "Caught"}]
    call = {"FunctionName": function, "Payload": {}}
    states = {
        "Call": task("lambda:invoke", call, Output="{% $states.result.Payload.none %}", Catch=caught),
        "Caught": {"Type": "Pass", "Output": "{% $states.input.Error %}", "End": True},
    }
    assert aws.run(states)["output"] == "States.QueryEvaluationError"


def test_a_stopped_execution_is_aborted_at_once_and_its_child_with_it(aws: Control) -> None:
    child = aws.machine({"Pause": {"Type": "Wait", "Seconds": 900_000, "End": True}})
    parent = aws.machine(
        {"Child": task("states:startExecution.sync:2", {"StateMachineArn": child, "Input": {}})}
    )
    execution = aws.start(parent)
    children = eventually(lambda: aws.stepfunctions.list_executions(stateMachineArn=child)["executions"])
    eventually(lambda: "TaskSubmitted" in history(aws, execution))
    aws.stepfunctions.stop_execution(executionArn=execution, error="Cancelled", cause="by hand")
    stopped = aws.stepfunctions.describe_execution(executionArn=execution)
    assert (stopped["status"], stopped["error"], stopped["cause"]) == ("ABORTED", "Cancelled", "by hand")
    assert aws.ended(children[0]["executionArn"])["status"] == "ABORTED"


def test_an_execution_shows_that_it_succeeded_before_it_shows_its_output(aws: Control) -> None:
    give = {"Give": {"Type": "Pass", "Output": 5, "End": True}}
    execution = aws.start(aws.machine(give))
    first = eventually(
        lambda: (
            (found := aws.stepfunctions.describe_execution(executionArn=execution))["status"] != "RUNNING"
            and found
        )
    )
    assert (first["status"], "output" in first) == ("SUCCEEDED", False)
    assert aws.stepfunctions.describe_execution(executionArn=execution)["output"] == "5"


def history(aws: Control, execution: str) -> list[str]:
    pages = aws.stepfunctions.get_paginator("get_execution_history").paginate(executionArn=execution)
    return [event["type"] for page in pages for event in page["events"]]


@pytest.fixture(scope="module")
def long(aws: Control) -> str:
    """An execution of 242 events: a beginning, an end, and two for each of its 120 states."""
    states = {f"Step{number}": {"Type": "Pass", "Next": f"Step{number + 1}"} for number in range(119)}
    return str(
        aws.run({**states, "Step119": {"Type": "Pass", "Output": {"a": 1}, "End": True}})["executionArn"]
    )


class TestHistory:
    def test_backwards_the_newest_come_first(self, aws: Control, long: str) -> None:
        read = aws.stepfunctions.get_execution_history
        first = read(executionArn=long, reverseOrder=True, maxResults=2)
        assert [event["type"] for event in first["events"]] == ["ExecutionSucceeded", "PassStateExited"]
        assert first["events"][0]["executionSucceededEventDetails"]["output"] == '{"a":1}'
        token = first["nextToken"]
        assert read(executionArn=long, reverseOrder=True, nextToken=token)["events"][0]["id"] == 240
        began = aws.stepfunctions.describe_execution(executionArn=long)["startDate"]
        assert timedelta(0) < first["events"][0]["timestamp"] - began < timedelta(days=1)

    @pytest.mark.parametrize(
        ("asked", "code"),
        [({"maxResults": 1001}, "ValidationException"), ({"nextToken": "nothing"}, "InvalidToken")],
    )
    def test_what_it_does_not_take(self, aws: Control, long: str, asked: dict[str, Any], code: str) -> None:
        with pytest.raises(ClientError) as error:
            aws.stepfunctions.get_execution_history(executionArn=long, **asked)
        assert error.value.response["Error"]["Code"] == code


def test_an_input_that_is_too_long_for_an_event_is_left_out_of_it(aws: Control) -> None:
    url, arn = aws.queue()
    ends = {"source": ["aws.states"], "detail": {"status": ["SUCCEEDED"]}}
    aws.events.put_rule(Name="ends", EventPattern=json.dumps(ends))
    aws.events.put_targets(Rule="ends", Targets=[{"Id": "1", "Arn": arn}])
    done = aws.machine({"Done": {"Type": "Pass", "Output": {"done": True}, "End": True}})
    execution = aws.start(done, {"text": "a" * 255_000})
    found: list[Any] = []

    def told() -> bool:
        found.extend(one for one in aws.messages(url) if one["detail"]["executionArn"] == execution)
        return bool(found)

    eventually(told)
    detail = found[0]["detail"]
    assert (detail["input"], detail["inputDetails"]) == (None, {"included": False})
    assert (json.loads(detail["output"]), detail["outputDetails"]) == ({"done": True}, {"included": True})
