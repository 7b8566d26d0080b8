"""Failures on request, before an action and after it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import Control, control, unique
from localcloud.faults import Faults

# moto warns of codes that no service's model names; ours are made up by whoever injects them.
pytestmark = pytest.mark.filterwarnings("ignore:Exception.InjectedFailure")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        yield opened


@pytest.fixture
def aws(cloud: Control) -> Iterator[Control]:
    yield cloud
    cloud.cloud.faults.clear()


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


# One action of each protocol that AWS has.
CALLS: dict[str, Callable[[Control], Any]] = {
    "ec2:DescribeVolumes": lambda aws: aws.ec2.describe_volumes(),
    "elbv2:DescribeLoadBalancers": lambda aws: aws.elbv2.describe_load_balancers(),
    "ssm:DescribeParameters": lambda aws: aws.ssm.describe_parameters(),
    "dynamodb:ListTables": lambda aws: aws.dynamodb.list_tables(),
    "cloudwatch:ListMetrics": lambda aws: aws.cloudwatch.list_metrics(),
    "stepfunctions:ListStateMachines": lambda aws: aws.stepfunctions.list_state_machines(),
    "lambda:ListFunctions": lambda aws: aws.lambda_.list_functions(),
}


@pytest.mark.parametrize("target", CALLS)
def test_an_action_fails_with_the_code_that_was_asked_for(aws: Control, target: str) -> None:
    aws.cloud.faults.add(target, "RequestLimitExceeded")
    assert code(lambda: CALLS[target](aws)) == "RequestLimitExceeded"
    CALLS[target](aws)


def test_before_the_action_nothing_happens_and_after_it_everything(aws: Control) -> None:
    def volumes() -> int:
        return len(aws.ec2.describe_volumes()["Volumes"])

    def create() -> None:
        aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")

    there = volumes()
    aws.cloud.faults.add("ec2:CreateVolume", "InternalError", when="before")
    assert code(create) == "InternalError"
    assert volumes() == there
    aws.cloud.faults.add("ec2:CreateVolume", "InternalError", when="after")
    assert code(create) == "InternalError"
    assert volumes() == there + 1


def test_a_fault_lasts_as_often_as_asked_or_until_cleared(aws: Control) -> None:
    aws.cloud.faults.add("ec2:DescribeVolumes", "Throttled", times=2)
    describe = aws.ec2.describe_volumes
    assert [code(describe) for _ in range(2)] == ["Throttled"] * 2
    describe()
    aws.cloud.faults.add("ec2:DescribeVolumes", "Throttled", times=-1)
    assert [code(describe) for _ in range(5)] == ["Throttled"] * 5
    assert aws.cloud.faults.clear() == 1
    describe()


def test_an_object_is_refused_also_to_who_has_only_its_presigned_address(aws: Control) -> None:
    bucket = unique("files")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_object(Bucket=bucket, Key="package.pyz", Body=b"the package")
    address = aws.s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "package.pyz"})
    aws.cloud.faults.add("s3:GetObject", "SlowDown", "reduce your request rate")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address)
    assert refused.value.code == 503
    assert b"<Code>SlowDown</Code><Message>reduce your request rate</Message>" in refused.value.read()
    refused.value.close()
    with urllib.request.urlopen(address) as answer:
        assert answer.read() == b"the package"


def counting_function(aws: Control) -> tuple[str, Callable[[], int]]:
    table = aws.table()
    function = aws.function(
        "import boto3, os\n"
        "def handler(event, context):\n"
        "    boto3.client('dynamodb').update_item(TableName=os.environ['T'], Key={'pk': {'S': 'n'}},\n"
        "        UpdateExpression='ADD n :one', ExpressionAttributeValues={':one': {'N': '1'}})\n",
        Environment={"Variables": {"T": table}},
    )

    def calls() -> int:
        item = aws.dynamodb.get_item(TableName=table, Key={"pk": {"S": "n"}}).get("Item")
        return int(item["n"]["N"]) if item else 0

    return function, calls


def test_a_function_fails_before_it_runs_or_after(aws: Control) -> None:
    function, calls = counting_function(aws)
    name = function.rsplit(":", 1)[1]
    aws.cloud.faults.add(f"lambda:{name}", "CapacityUnavailable", "none left")
    kind, payload = aws.invoke(function)
    assert (kind, payload) == ("Unhandled", {"errorType": "CapacityUnavailable", "errorMessage": "none left"})
    assert calls() == 0
    aws.cloud.faults.add(f"lambda:{name}", "Lost", when="after")
    assert aws.invoke(function)[1]["errorType"] == "Lost"
    assert calls() == 1


# The names under which Step Functions shows that a function's process ended without an answer.
CRASHES = ("Runtime.ExitError", "Lambda.Unknown", "Sandbox.Timedout")


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_shows_under_each_of_its_names_and_each_can_be_retried(aws: Control, crash: str) -> None:
    function, _ = counting_function(aws)
    name = f"lambda:{function.rsplit(':', 1)[1]}"
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": function, "Payload": {}},
        "TimeoutSeconds": 300,
        "End": True,
    }
    others = [each for each in CRASHES if each != crash]
    for retried, expected in (([crash], "SUCCEEDED"), (others, "FAILED")):
        aws.cloud.faults.add(name, crash)
        ended = aws.run({"Call": {**task, "Retry": [{"ErrorEquals": retried, "IntervalSeconds": 1}]}})
        assert ended["status"] == expected
    assert ended["error"] == crash


def test_a_crash_without_an_error_type_says_so(aws: Control) -> None:
    """What Lambda gave has no errorType: that is what `Lambda.Unknown` means."""
    function, calls = counting_function(aws)
    aws.cloud.faults.add(f"lambda:{function.rsplit(':', 1)[1]}", "Lambda.Unknown", when="after")
    kind, payload = aws.invoke(function)
    assert (kind, sorted(payload)) == ("Unhandled", ["errorMessage"])
    assert calls() == 1


def admin(aws: Control, method: str, body: Any = None) -> tuple[int, Any]:
    url = f"{aws.cloud.endpoint_url}/_peaker/faults"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_faults_are_asked_for_listed_and_cleared_over_http(aws: Control) -> None:
    wanted = {"target": "ec2:CreateVolume", "error": "VolumeLimitExceeded", "times": 3, "when": "before"}
    assert admin(aws, "POST", wanted)[0] == 200
    listed = admin(aws, "GET")[1]["faults"]
    assert [{key: fault[key] for key in wanted} for fault in listed] == [wanted]
    assert admin(aws, "DELETE") == (200, {"cleared": 1})


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"target": "CreateVolume"}, "target"),
        ({}, "target"),
        ({"target": "ec2:CreateVolume", "times": 0}, "times"),
        ({"target": "ec2:CreateVolume", "times": "many"}, "times"),
        ({"target": "ec2:CreateVolume", "when": "during"}, "when"),
        ({"target": "ec2:CreateVolume", "when": "duplicate"}, "when"),
        ({"target": "ec2:CreateVolume", "tiems": 2}, "tiems"),
    ],
)
def test_a_wrong_request_names_the_field(aws: Control, document: dict[str, Any], field: str) -> None:
    status, answer = admin(aws, "POST", document)
    assert status == 400
    assert answer["error"].startswith(f"{field}:")


def test_targets_are_told_apart_without_regard_to_case() -> None:
    faults = Faults()
    faults.add("EC2:createVolume", unique("Error"))
    assert faults.take("ec2:DeleteVolume") is None
    assert faults.take("ec2:CreateVolume") is not None
