"""A state that waits for its task token: the answer, a late one, a second one, none at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import Control, control, eventually

SCALE = 300
# Cloud seconds; a real one.
SOON = 300


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=SCALE) as opened:
        yield opened


class Waiting:
    """A machine with one state that gives its token to a function, which writes it down and fails where it is told."""

    def __init__(self, aws: Control, folder: Path, *, timeout: Any = 90_000, fails: int = 0) -> None:
        self.aws = aws
        self._written = folder / "tokens"
        source = (
            "import json, os\n"
            "class Busy(Exception): pass\n"
            "def handler(event, context):\n"
            f"    with open({str(self._written)!r}, 'a') as file:\n"
            "        file.write(json.dumps(event) + '\\n')\n"
            f"    if event['try'] < {fails}: raise Busy('again')\n"
            "    return 'not the answer'\n"
        )
        state = {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Arguments": {
                "FunctionName": aws.function(source),
                "Payload": {
                    "token": "{% $states.context.Task.Token %}",
                    "try": "{% $states.context.State.RetryCount %}",
                },
            },
            "TimeoutSeconds": timeout,
            "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 2}],
            "Catch": [
                {"ErrorEquals": ["States.ALL"], "Output": "{% $states.errorOutput %}", "Next": "Caught"}
            ],
            "End": True,
        }
        self.execution = aws.start(aws.machine({"Ask": state, "Caught": {"Type": "Succeed"}}), {"minutes": 9})

    def tokens(self, count: int = 1) -> list[str]:
        """The tokens in the order of the tries, once there are so many."""

        def seen() -> list[str]:
            lines = self._written.read_text().splitlines() if self._written.exists() else []
            return [json.loads(line)["token"] for line in lines if line]

        return list(eventually(lambda: found if len(found := seen()) >= count else None))

    def approve(self, token: str, output: str = '{"yes": true}') -> None:
        self.aws.stepfunctions.send_task_success(taskToken=token, output=output)

    def refused(self, token: str, output: str = "{}") -> str:
        """The error's name with which an answer is refused."""
        with pytest.raises(ClientError) as refused:
            self.approve(token, output)
        return str(refused.value.response["Error"]["Code"])


def test_the_answer_is_the_result_of_the_state(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path)
    [token] = waiting.tokens()
    assert aws.stepfunctions.describe_execution(executionArn=waiting.execution)["status"] == "RUNNING"
    waiting.approve(token)
    assert aws.ended(waiting.execution)["output"] == {"yes": True}


def test_a_failure_that_is_sent_is_caught_with_its_cause(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path)
    aws.stepfunctions.send_task_failure(taskToken=waiting.tokens()[0], error="No", cause="too dear")
    assert aws.ended(waiting.execution)["output"] == {"Error": "No", "Cause": "too dear"}


def test_without_an_answer_the_state_ends_in_its_timeout_of_cloud_seconds(
    aws: Control, tmp_path: Path
) -> None:
    with aws.in_real_time():  # it has its token before
        waiting = Waiting(aws, tmp_path, timeout=SOON)
        [token] = waiting.tokens()
    assert aws.ended(waiting.execution)["output"]["Error"] == "States.Timeout"
    assert waiting.refused(token) == "TaskTimedOut"


def test_the_timeout_may_be_an_expression(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path, timeout="{% $states.input.minutes * 5 %}")
    assert aws.ended(waiting.execution)["output"]["Error"] == "States.Timeout"


def test_a_second_answer_is_refused(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path)
    [token] = waiting.tokens()
    waiting.approve(token)
    assert waiting.refused(token) == "TaskTimedOut"
    assert aws.ended(waiting.execution)["output"] == {"yes": True}


def test_an_answer_after_a_stop_is_refused(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path)
    [token] = waiting.tokens()
    aws.stepfunctions.stop_execution(executionArn=waiting.execution)
    assert waiting.refused(token) == "TaskTimedOut"
    assert aws.ended(waiting.execution)["status"] == "ABORTED"


def test_an_output_that_is_no_json_is_refused_and_the_state_waits_on(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path)
    [token] = waiting.tokens()
    assert waiting.refused(token, "yes") == "InvalidOutput"
    waiting.approve(token)
    assert aws.ended(waiting.execution)["status"] == "SUCCEEDED"


def test_a_token_that_is_none_is_refused(aws: Control, tmp_path: Path) -> None:
    assert Waiting(aws, tmp_path).refused("A" * 200) == "InvalidToken"


def test_each_try_has_a_token_of_its_own_and_the_newest_counts(aws: Control, tmp_path: Path) -> None:
    waiting = Waiting(aws, tmp_path, fails=1)
    first, second = waiting.tokens(2)
    assert first != second
    assert waiting.refused(first) == "TaskTimedOut"
    waiting.approve(second)
    assert aws.ended(waiting.execution)["output"] == {"yes": True}
