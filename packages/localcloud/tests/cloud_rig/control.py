"""A local cloud without a data plane, and the calls that tests of its control plane begin with."""

from __future__ import annotations

import io
import itertools
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from cloud_rig.clocks import REAL_TIME, at_scale
from localcloud.dataplane import DataPlane
from localcloud.server import LocalCloud

ROLE = "arn:aws:iam::123456789012:role/tests"
ACTING = [f"{name}.amazonaws.com" for name in ("lambda", "states", "events")]
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": ACTING}, "Action": "sts:AssumeRole"}],
}
# For tests that are not about permissions: a role that may do everything, targets that take from everybody here.
EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
OPEN_QUEUE = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:*:*:123456789012:*"}},
        }
    ],
}
_numbers = itertools.count(1)


def unique(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}-{next(_numbers)}"


def eventually(look: Callable[[], Any], seconds: float = 240.0) -> Any:
    """The first truthy answer; fails with the last one when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.02)
    return answer


def packed(source: str, name: str = "app.py") -> bytes:
    """A deployment package with one module. The same source is the same package, as no time of day is in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), source)
    return buffer.getvalue()


class Control:
    """An open local cloud, with clients as attributes."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud = cloud

    def __getattr__(self, service: str) -> Any:
        return self.cloud.client("lambda" if service == "lambda_" else service)

    def in_real_time(self) -> AbstractContextManager[None]:
        """A busy machine is in time for what has to be before minutes of the cloud's are over."""
        return at_scale(self.cloud.clock, REAL_TIME)

    def function(self, source: str, **options: Any) -> str:
        """Create a function; its ARN."""
        request = {
            "FunctionName": unique("function"),
            "Runtime": "python3.13",
            "Role": ROLE,
            "Handler": "app.handler",
            "Timeout": 300,
            "Code": {"ZipFile": packed(source)},
            **options,
        }
        return str(self.lambda_.create_function(**request)["FunctionArn"])

    def allow_invocation(self, function: str, **condition: str) -> None:
        """Let the account's rules invoke the function, or those of another condition."""
        self.lambda_.add_permission(
            FunctionName=function,
            StatementId=unique("allow"),
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
            **(condition or {"SourceArn": "arn:aws:events:us-east-1:123456789012:rule/*"}),
        )

    def invoke(self, function: str, event: Any = None) -> tuple[str | None, Any]:
        """(kind of error or None, payload)."""
        answer = self.lambda_.invoke(FunctionName=function, Payload=json.dumps(event or {}))
        return answer.get("FunctionError"), json.loads(answer["Payload"].read())

    def machine(self, states: dict[str, Any], **top: Any) -> str:
        """Create a JSONata state machine that starts at the first state; its ARN."""
        definition = {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": states, **top}
        answer = self.stepfunctions.create_state_machine(
            name=unique("machine"), definition=json.dumps(definition), roleArn=ROLE
        )
        return str(answer["stateMachineArn"])

    def start(self, machine: str, document: Any = None, **options: Any) -> str:
        answer = self.stepfunctions.start_execution(
            stateMachineArn=machine, input=json.dumps({} if document is None else document), **options
        )
        return str(answer["executionArn"])

    def ended(self, execution: str, seconds: float = 240.0) -> dict[str, Any]:
        """Wait for the end; the description, output parsed. What succeeded may show its output later than that."""

        def look() -> dict[str, Any] | None:
            found: dict[str, Any] = self.stepfunctions.describe_execution(executionArn=execution)
            late = found["status"] == "SUCCEEDED" and "output" not in found
            return None if found["status"] == "RUNNING" or late else found

        found: dict[str, Any] = eventually(look, seconds)
        if "output" in found:
            found["output"] = json.loads(found["output"])
        return found

    def run(self, states: dict[str, Any], document: Any = None, **top: Any) -> dict[str, Any]:
        """Create a machine, start it and wait for its end."""
        return self.ended(self.start(self.machine(states, **top), document))

    def queue(self) -> tuple[str, str]:
        """A queue that takes from all services of the account: (URL, ARN)."""
        url = self.sqs.create_queue(QueueName=unique("queue"), Attributes={"Policy": json.dumps(OPEN_QUEUE)})[
            "QueueUrl"
        ]
        attributes = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        return str(url), str(attributes["QueueArn"])

    def messages(self, url: str) -> list[Any]:
        """What is in a queue now, taken out, bodies parsed; not what comes meanwhile, or it would not end."""
        asked = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        there = int(asked["Attributes"]["ApproximateNumberOfMessages"])
        found: list[Any] = []
        while True:
            batch = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            for message in batch:
                found.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if not batch or len(found) >= there:
                return found

    def table(self) -> str:
        """A table with the string key `pk`."""
        name = unique("table")
        self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return name


@contextmanager
def control(
    state_dir: Path, clock_scale: float = 1.0, dataplane: DataPlane | None = None
) -> Iterator[Control]:
    """Open a local cloud, without hosts and volumes unless `dataplane` has some, with a role for functions."""
    with LocalCloud(dataplane, state_dir, clock_scale=clock_scale) as cloud:
        cloud.client("iam").create_role(RoleName="tests", AssumeRolePolicyDocument=json.dumps(TRUST))
        cloud.client("iam").put_role_policy(
            RoleName="tests", PolicyName="everything", PolicyDocument=json.dumps(EVERYTHING)
        )
        yield Control(cloud)
