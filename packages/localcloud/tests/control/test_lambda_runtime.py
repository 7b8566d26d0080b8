"""Functions run for real: their code, environment, errors, timeouts, logs and metrics."""

from __future__ import annotations

import gc
import io
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.awslambda_simple.models import lambda_simple_backends

from cloud_rig.control import Control, control, eventually, packed, unique
from localcloud.extensions.functions.lambda_runtime import QUEUED_AT_ONCE

SOURCE = """
import json, os, sys, time
import boto3

class CapacityUnavailable(Exception):
    pass

def handler(event, context):
    action = event.get("action")
    if action == "fail":
        raise CapacityUnavailable("no r6i.large left")
    if action == "sleep":
        time.sleep(600)
    if action == "exit":
        os._exit(7)
    if action == "unserialisable":
        return {1, 2}
    if action == "log":
        print("to stdout"); print("to stderr", file=sys.stderr)
    if action == "aws":
        return len(boto3.client("ec2").describe_vpcs()["Vpcs"])
    if action == "context":
        return {
            "name": context.function_name,
            "arn": context.invoked_function_arn,
            "memory": context.memory_limit_in_mb,
            "request": context.aws_request_id,
            "remaining": context.get_remaining_time_in_millis(),
        }
    if action == "environment":
        return dict(os.environ)
    if action == "import":
        try:
            __import__(event["module"])
        except ImportError:
            return False
        return True
    if action == "metric":
        lag = {"Name": "Lag", "Unit": "Seconds"}
        directive = {"Namespace": "Peaker", "Dimensions": [["Cluster"]], "Metrics": [lag]}
        at = time.time() + event.get("days", 0) * 86400
        print(json.dumps({"_aws": {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]},
                          "Cluster": "orders", "Lag": [1, 3]}))
    return {"pid": os.getpid(), "cwd": os.getcwd()}
"""


# Lambda quotas: function timeout.
LONGEST_FUNCTION_SECONDS = 900


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=600) as opened:
        yield opened


@pytest.fixture(scope="module")
def function(aws: Control) -> str:
    return aws.function(
        SOURCE, Timeout=600, MemorySize=512, Environment={"Variables": {"LEDGER_TABLE": "ledger"}}
    )


def test_a_function_is_warm_the_second_time(aws: Control, function: str) -> None:
    assert aws.invoke(function) == aws.invoke(function)


def test_an_exception_is_the_answer_with_its_class_name(aws: Control, function: str) -> None:
    kind, payload = aws.invoke(function, {"action": "fail"})
    assert kind == "Unhandled"
    assert payload["errorType"] == "CapacityUnavailable"
    assert payload["errorMessage"] == "no r6i.large left"
    assert "in handler" in payload["stackTrace"][0]


def test_a_function_past_its_timeout_is_stopped_and_the_next_call_works(aws: Control) -> None:
    slow = aws.function(SOURCE, Timeout=1)
    started = time.monotonic()
    kind, payload = aws.invoke(slow, {"action": "sleep"})
    assert (kind, payload["errorType"]) == ("Unhandled", "Sandbox.Timedout")
    assert "Task timed out after 1.00 seconds" in payload["errorMessage"]
    assert time.monotonic() - started < 300
    assert eventually(lambda: aws.invoke(slow)[0] is None)


def test_whoever_calls_a_function_waits_as_long_as_it_may_take(aws: Control) -> None:
    assert aws.lambda_.meta.config.read_timeout > LONGEST_FUNCTION_SECONDS


def test_a_process_that_dies_is_an_error_and_the_next_call_works(aws: Control, function: str) -> None:
    assert aws.invoke(function, {"action": "exit"})[1]["errorType"] == "Runtime.ExitError"
    assert aws.invoke(function)[0] is None


def test_an_answer_that_is_not_json_is_an_error(aws: Control, function: str) -> None:
    assert aws.invoke(function, {"action": "unserialisable"})[1]["errorType"] == "Runtime.MarshalError"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"Handler": "nothing.handler"}, "Runtime.ImportModuleError"),
        ({"Handler": "app.nothing"}, "Runtime.HandlerNotFound"),
        ({"Code": {"ZipFile": packed("raise KeyError('LEDGER_TABLE')")}}, "KeyError"),
    ],
)
def test_a_function_that_cannot_be_loaded_says_why(aws: Control, options: dict[str, Any], error: str) -> None:
    assert aws.invoke(aws.function(SOURCE, **options))[1]["errorType"] == error


def test_a_role_that_does_not_trust_lambda_is_refused(aws: Control) -> None:
    with pytest.raises(ClientError, match="cannot be assumed by Lambda"):
        aws.function(SOURCE, Role="arn:aws:iam::123456789012:role/nobody")


@pytest.mark.parametrize(
    ("denied", "starts"), [({}, True), ({"Effect": "Deny", "Action": "kms:Decrypt", "Resource": "*"}, False)]
)
def test_a_function_starts_only_where_its_role_may_read_its_variables(
    aws: Control, denied: dict[str, str], starts: bool
) -> None:
    """A grant gives each function's role kms:Decrypt; a denial of the role's own counts all the same."""
    function = aws.function(SOURCE, Environment={"Variables": {"LEDGER_TABLE": "ledger"}})
    role = aws.lambda_.get_function_configuration(FunctionName=function)["Role"].rsplit("/", 1)[-1]
    if denied:
        document = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
        aws.iam.put_role_policy(RoleName=role, PolicyName="no-keys", PolicyDocument=document)
    try:
        if starts:
            assert "pid" in aws.invoke(function, {})[1]
        else:
            with pytest.raises(ClientError, match="unable to decrypt the environment variables") as refused:
                aws.invoke(function, {})
            assert refused.value.response["Error"]["Code"] == "KMSAccessDeniedException"
    finally:
        if denied:
            aws.iam.delete_role_policy(RoleName=role, PolicyName="no-keys")


@pytest.mark.parametrize(
    ("module", "there"), [("boto3", True), ("moto", False), ("localcloud", False), ("peaker", False)]
)
def test_a_function_sees_its_bundle_and_what_aws_brings_and_no_more(
    aws: Control, function: str, module: str, there: bool
) -> None:
    assert aws.invoke(function, {"action": "import", "module": module})[1] is there


def test_the_log_has_both_outputs(aws: Control, function: str) -> None:
    aws.invoke(function, {"action": "log"})
    log = (aws.cloud.state_dir / "logs" / f"{function.rsplit(':', 1)[1]}.log").read_text()
    assert "\nto stdout\nto stderr\n" in log


def test_embedded_metrics_are_cloudwatchs_on_the_cloud_clock(aws: Control, function: str) -> None:
    before = aws.cloud.clock.now()
    aws.invoke(function, {"action": "metric"})
    now = aws.cloud.clock.now()
    lag = {"Namespace": "Peaker", "MetricName": "Lag", "Dimensions": [{"Name": "Cluster", "Value": "orders"}]}
    asked = [
        {"Id": stat.lower(), "MetricStat": {"Metric": lag, "Period": 86_400, "Stat": stat}}
        for stat in ("Average", "SampleCount")
    ]
    found = aws.cloudwatch.get_metric_data(
        MetricDataQueries=asked, StartTime=before - timedelta(hours=1), EndTime=now + timedelta(minutes=1)
    )["MetricDataResults"]
    assert [one["Values"] for one in found] == [[2.0], [2.0]]


def test_a_metric_in_a_log_line_that_cloudwatch_does_not_take_fails_no_function(
    aws: Control, function: str
) -> None:
    """CloudWatch Logs counts it (EMFValidationErrors) after the function has answered."""
    failed, answer = aws.invoke(function, {"action": "metric", "days": 30})
    assert failed is None
    assert "pid" in answer


SMALL_BOTO3 = """
class Session:
    def get_available_services(self):
        return ["s3"]
    def client(self, service, *_, **__):
        if service != "s3":
            raise LookupError(f"Unknown service: {service}")
"""


def test_a_bundle_may_bring_a_boto3_that_knows_fewer_services(aws: Control) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("boto3/__init__.py", SMALL_BOTO3)
        archive.writestr(
            "app.py", "import boto3\ndef handler(e, c): return boto3.Session().get_available_services()"
        )
    assert aws.invoke(aws.function("", Code={"ZipFile": code.getvalue()})) == (None, ["s3"])


def test_new_code_is_what_runs_next(aws: Control) -> None:
    function = aws.function("def handler(event, context): return 1")
    assert aws.invoke(function)[1] == 1
    aws.lambda_.update_function_code(
        FunctionName=function, ZipFile=packed("def handler(event, context): return 2")
    )
    assert aws.invoke(function)[1] == 2


HELD = """
import os, pathlib, time

def handler(event, context):
    folder = pathlib.Path(event["folder"])
    (folder / f"{os.getpid()}.pid").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    (folder / f"{event['number']}.done").touch()
"""


def test_event_invocations_that_come_faster_than_they_end_wait_for_their_turn(
    aws: Control, function: str, tmp_path: Path
) -> None:
    held, count = aws.function(HELD, Timeout=300), 4 * QUEUED_AT_ONCE
    for number in range(count):
        payload = json.dumps({"folder": str(tmp_path), "number": number})
        aws.lambda_.invoke(FunctionName=held, InvocationType="Event", Payload=payload)
    eventually(lambda: len(list(tmp_path.glob("*.pid"))) >= QUEUED_AT_ONCE)
    for _ in range(50):  # whoever asks for an answer waits for none of them
        assert aws.invoke(function)[0] is None
    (tmp_path / "go").touch()
    eventually(lambda: len(list(tmp_path.glob("*.done"))) == count)
    assert len(list(tmp_path.glob("*.pid"))) == QUEUED_AT_ONCE


def test_an_event_invocation_is_tried_again_after_a_minute_of_cloud_time(aws: Control) -> None:
    table = aws.table()
    function = aws.function(
        "import boto3, os\n"
        "def handler(event, context):\n"
        "    key = {'pk': {'S': 'calls'}}\n"
        "    boto3.client('dynamodb').update_item(TableName=os.environ['T'], Key=key,\n"
        "        UpdateExpression='ADD n :one', ExpressionAttributeValues={':one': {'N': '1'}})\n"
        "    raise RuntimeError('again')\n",
        Environment={"Variables": {"T": table}},
    )
    answer = aws.lambda_.invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")
    assert answer["StatusCode"] == 202

    def calls() -> int:
        item = aws.dynamodb.get_item(TableName=table, Key={"pk": {"S": "calls"}}).get("Item")
        return int(item["n"]["N"]) if item else 0

    eventually(lambda: calls() == 3)


def test_an_event_invocation_that_fails_for_the_last_time_goes_to_its_destination(aws: Control) -> None:
    url, arn = aws.queue()
    function = aws.function("def handler(event, context): raise RuntimeError('not today')")
    aws.lambda_.put_function_event_invoke_config(
        FunctionName=function, MaximumRetryAttempts=0, DestinationConfig={"OnFailure": {"Destination": arn}}
    )
    aws.lambda_.invoke(FunctionName=function, InvocationType="Event", Payload=b'{"cluster": "orders"}')
    [record] = eventually(lambda: aws.messages(url))
    assert record["requestPayload"] == {"cluster": "orders"}
    assert record["requestContext"]["functionArn"] == f"{function}:$LATEST"
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["responseContext"]["functionError"] == "Unhandled"
    assert record["responsePayload"]["errorMessage"] == "not today"


def package(aws: Control, source: str) -> dict[str, str]:
    """Where a package of the source lies, as a function's code."""
    bucket = unique("packages")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_object(Bucket=bucket, Key="package.zip", Body=packed(source))
    return {"S3Bucket": bucket, "S3Key": "package.zip"}


def held_code(function: str) -> bytes:
    found: bytes = lambda_simple_backends["123456789012"]["us-east-1"].get_function(function).code_bytes
    return found


def test_a_package_that_no_function_has_any_more_is_held_no_more(aws: Control) -> None:
    """A local cloud that is deployed to again and again stays as large as it was."""
    functions = [aws.function("", Code=package(aws, SOURCE + "# one\n")) for _ in range(2)]
    old = held_code(functions[0])
    for function in functions:
        aws.lambda_.update_function_code(FunctionName=function, **package(aws, SOURCE + "# two\n"))
    assert held_code(functions[0]) is held_code(functions[1])
    gc.collect()
    assert sys.getrefcount(old) == 2, "it is here and in the count's own argument"
