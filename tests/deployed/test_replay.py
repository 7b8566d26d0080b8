"""`peaker replay` at the product as deployed: a dead letter of each kind, under the permissions of an operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from peaker_cli.app import app
from peaker_cli.failures import ControlPlaneError
from typer.testing import CliRunner

from cloud_rig.control import ROLE, TRUST, Control, control, eventually, packed
from environments.schema import load_environment
from stacks.naming import Names
from stacks.people_statements import replay_statements, statements_for
from stacks.rights.role_statements import policy_document

NAMES = Names(load_environment("local"))
SHORTAGE = NAMES.cluster_alarm("orders", "replica-shortage")
TICK = NAMES.cluster_alarm("orders", "forecast")
STOPPED = f"{NAMES.prefix}-execution-stopped"
FAILED = f"{NAMES.prefix}-failed-invocations"
PAGES = f"{NAMES.operator_topic}-undelivered"
ACCOUNT_ROOT = {"AWS": "arn:aws:iam::123456789012:root"}
PASS = {"StartAt": "End", "States": {"End": {"Type": "Pass", "End": True}}}
REFUSED = "AccessDeniedException"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    """The rules, queues, workflows and functions that a replay meets, by their names; each workflow ends at once."""
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        for name in ("scale_out", "roll_back"):
            opened.stepfunctions.create_state_machine(
                name=NAMES.state_machine(name), definition=json.dumps(PASS), roleArn=ROLE
            )
        source = "def handler(event, context): raise RuntimeError('not today')"
        opened.function(source, FunctionName=NAMES.function("forecast_load"))
        opened.lambda_.put_function_event_invoke_config(
            FunctionName=NAMES.function("forecast_load"),
            MaximumRetryAttempts=0,
            DestinationConfig={"OnFailure": {"Destination": make_queue(opened, FAILED)}},
        )
        alarm = {
            "InputPathsMap": {"alarm": "$.detail.alarmName"},
            "InputTemplate": '{"cluster":"orders","trigger":{"alarm":<alarm>}}',
        }
        make_rule(opened, SHORTAGE, NAMES.state_machine_arn("scale_out"), 3600, InputTransformer=alarm)
        make_rule(opened, STOPPED, NAMES.state_machine_arn("roll_back"), 86_400, InputPath="$.detail")
        make_rule(opened, TICK, NAMES.function_arn("forecast_load"), 300, Input='{"cluster":"orders"}')
        make_queue(opened, PAGES)
        for who in ("read", "operate"):
            trust = {"Effect": "Allow", "Principal": ACCOUNT_ROOT, "Action": "sts:AssumeRole"}
            trusted = json.dumps({"Version": TRUST["Version"], "Statement": [trust]})
            opened.iam.create_role(RoleName=who, AssumeRolePolicyDocument=trusted)
            document = json.dumps(policy_document(statements_for(who, NAMES)))
            opened.iam.put_role_policy(RoleName=who, PolicyName="set", PolicyDocument=document)
        yield opened


def make_queue(aws: Control, name: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "*",
    }
    policy = json.dumps({"Version": TRUST["Version"], "Statement": [statement]})
    aws.sqs.create_queue(QueueName=name, Attributes={"Policy": policy})
    return NAMES.arn("sqs", name)


def make_rule(aws: Control, name: str, target: str, longest_age_seconds: int, **given: Any) -> None:
    """As EventRoute makes it; its pattern is its own name, so that a test may put the event."""
    letters = make_queue(aws, f"{name}-undelivered")
    aws.events.put_rule(Name=name, EventPattern=json.dumps({"detail-type": [name]}))
    policy = {"MaximumRetryAttempts": 5, "MaximumEventAgeInSeconds": longest_age_seconds}
    role = {"RoleArn": ROLE} if ":states:" in target else {}
    one = {"Id": "1", "Arn": target, "RetryPolicy": policy, "DeadLetterConfig": {"Arn": letters}}
    aws.events.put_targets(Rule=name, Targets=[{**one, **role, **given}])


@pytest.fixture
def as_person(aws: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Types `peaker replay` as one of the sets; returns what it printed, as JSON."""
    lines = []
    for who in ("read", "operate"):
        arn = f"arn:aws:iam::123456789012:role/{who}"
        keys = aws.sts.assume_role(RoleArn=arn, RoleSessionName="dba")["Credentials"]
        lines += [f"[{who}]", f"aws_access_key_id={keys['AccessKeyId']}"]
        lines += [f"aws_secret_access_key={keys['SecretAccessKey']}"]
        lines += [f"aws_session_token={keys['SessionToken']}"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))

    def types(who: str, *arguments: str) -> Any:
        place = ("--env", "local", "--endpoint", aws.cloud.endpoint_url, "--profile", who)
        ended = CliRunner().invoke(app, ["replay", "--json", *arguments, *place])
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return json.loads(ended.stdout)

    yield types
    for queue in (FAILED, PAGES, *(f"{name}-undelivered" for name in (SHORTAGE, STOPPED, TICK))):
        aws.messages(url_of(aws, queue))


def url_of(aws: Control, queue: str) -> str:
    return str(aws.sqs.get_queue_url(QueueName=queue)["QueueUrl"])


def lying(aws: Control, queue: str) -> int:
    wanted = ["ApproximateNumberOfMessages"]
    answer = aws.sqs.get_queue_attributes(QueueUrl=url_of(aws, queue), AttributeNames=wanted)
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


def undelivered(aws: Control, rule: str, source: str, **detail: Any) -> str:
    """An event that its target refuses: what EventBridge then leaves in the queue, its own or the function's."""
    aws.cloud.faults.add(f"events:{rule}", REFUSED, "may not", when="before")
    aws.cloud.put_event(source, rule, detail)
    eventually(lambda: lying(aws, f"{rule}-undelivered") == 1)
    return f"{rule}-undelivered"


def plant_each_kind(aws: Control) -> dict[str, int]:
    """One of an alarm, of a run's end, of a schedule's tick, of a failed call, of a page; and what nobody knows."""
    undelivered(aws, SHORTAGE, "aws.cloudwatch", alarmName=SHORTAGE, state={"value": "ALARM"})
    undelivered(aws, STOPPED, "aws.states", name="scale-out-1", status="ABORTED")
    undelivered(aws, TICK, "aws.events")
    aws.lambda_.invoke(
        FunctionName=NAMES.function("forecast_load"), InvocationType="Event", Payload=b'{"cluster": "orders"}'
    )
    eventually(lambda: lying(aws, FAILED) == 1)
    aws.sqs.send_message(QueueUrl=url_of(aws, f"{TICK}-undelivered"), MessageBody='"hello"')
    told = json.dumps({"AlarmName": FAILED, "NewStateValue": "ALARM"})
    page = json.dumps({"Type": "Notification", "Message": told})
    aws.sqs.send_message(QueueUrl=url_of(aws, PAGES), MessageBody=page)
    one_each = dict.fromkeys((f"{SHORTAGE}-undelivered", f"{STOPPED}-undelivered", FAILED, PAGES), 1)
    return {**one_each, f"{TICK}-undelivered": 2}


def move(aws: Control, queue: str, copies: int = 1, **changed: str) -> None:
    """Take the only message of a queue out and put it back, with changes of its event."""
    found = aws.sqs.receive_message(QueueUrl=url_of(aws, queue), MessageAttributeNames=["All"])
    [message] = found["Messages"]
    aws.sqs.delete_message(QueueUrl=url_of(aws, queue), ReceiptHandle=message["ReceiptHandle"])
    for _ in range(copies):
        aws.sqs.send_message(
            QueueUrl=url_of(aws, queue),
            MessageBody=json.dumps({**json.loads(message["Body"]), **changed}),
            MessageAttributes=message["MessageAttributes"],
        )


def executions(aws: Control, workflow: str) -> list[Any]:
    found = aws.stepfunctions.list_executions(stateMachineArn=NAMES.state_machine_arn(workflow))["executions"]
    return [aws.stepfunctions.describe_execution(executionArn=one["executionArn"]) for one in found]


def test_each_kind_is_listed_without_a_change_then_sent_and_deleted(
    aws: Control, as_person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant_each_kind(aws)
    looked = as_person("operate")
    told = {(one["what"], one["why"].split(":")[0], one["outcome"]) for one in looked}
    assert told == {
        (f"alarm {SHORTAGE} is ALARM, for peaker-local-scale_out", "NO_PERMISSIONS", "would be sent"),
        ("the end of scale-out-1: ABORTED, for peaker-local-roll_back", "NO_PERMISSIONS", "would be sent"),
        ("a tick of the schedule, for peaker-local-forecast_load", "NO_PERMISSIONS", "would be sent"),
        ("a call of peaker-local-forecast_load", "RuntimeError", "would be sent"),
        (f"a page: {FAILED} is ALARM: no reason", "no mail server took it", "would be deleted"),
        ("unknown", "unknown", "is left"),
    }
    assert {queue: lying(aws, queue) for queue in planted} == planted
    assert executions(aws, "scale_out") == executions(aws, "roll_back") == []

    aws.lambda_.update_function_code(
        FunctionName=NAMES.function("forecast_load"), ZipFile=packed("def handler(event, context): return 1")
    )
    with monkeypatch.context() as watched:
        asked = record_calls(watched)
        done = as_person("operate", "--yes")
    assert sorted(one["outcome"] for one in done) == ["deleted", "left", *["sent and deleted"] * 4]
    [begun] = executions(aws, "scale_out")
    assert json.loads(begun["input"]) == {"cluster": "orders", "trigger": {"alarm": SHORTAGE}}
    [undone] = executions(aws, "roll_back")
    assert json.loads(undone["input"]) == {"name": "scale-out-1", "status": "ABORTED"}
    assert {queue: lying(aws, queue) for queue in planted} == {
        **dict.fromkeys(planted, 0),
        f"{TICK}-undelivered": 1,
    }
    granted = {action for one in replay_statements(NAMES) for action in one.actions}
    assert asked == granted


def record_calls(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The actions of all calls from now on, as IAM names them."""
    asked: set[str] = set()
    original = BaseClient._make_api_call  # type: ignore[attr-defined]
    prefixes = {"stepfunctions": "states"}

    def call(self: Any, operation: str, params: Any) -> Any:
        service = self.meta.service_model.service_name
        action = "InvokeFunction" if operation == "Invoke" else operation
        asked.add(f"{prefixes.get(service, service)}:{action}")
        return original(self, operation, params)

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    return asked


def test_an_event_that_lies_there_twice_starts_one_execution(aws: Control, as_person: Any) -> None:
    queue = undelivered(aws, SHORTAGE, "aws.cloudwatch", alarmName=SHORTAGE, state={"value": "ALARM"})
    move(aws, queue, copies=2)
    before = len(executions(aws, "scale_out"))
    assert [one["outcome"] for one in as_person("operate", queue, "--yes")] == ["sent and deleted"] * 2
    assert len(executions(aws, "scale_out")) == before + 1
    assert lying(aws, queue) == 0


def test_what_its_target_refuses_again_stays(aws: Control, as_person: Any) -> None:
    queue = undelivered(aws, STOPPED, "aws.states", name="scale-out-2", status="FAILED")
    aws.cloud.faults.add("stepfunctions:StartExecution", REFUSED, "still not")
    [line] = as_person("operate", queue, "--yes")
    assert (line["outcome"], "still not" in line["error"]) == ("left", True)
    assert lying(aws, queue) == 1


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.MessageNotInflight", "InvalidParameterValue"])
def test_a_letter_that_shows_itself_while_somebody_looks_is_no_error(
    aws: Control, as_person: Any, code: str
) -> None:
    queue = undelivered(aws, STOPPED, "aws.states", name="scale-out-3", status="FAILED")
    aws.cloud.faults.add("sqs:ChangeMessageVisibility", code, "it is visible")
    assert [one["outcome"] for one in as_person("operate", queue)] == ["would be sent"]


def test_an_alarm_of_two_hours_ago_is_deleted_unsent(aws: Control, as_person: Any) -> None:
    queue = undelivered(aws, SHORTAGE, "aws.cloudwatch", alarmName=SHORTAGE, state={"value": "ALARM"})
    before = len(executions(aws, "scale_out"))
    move(aws, queue, time=(aws.cloud.clock.now() - timedelta(hours=2)).isoformat())
    [line] = as_person("operate", queue, "--yes")
    assert line["outcome"] == "deleted"
    assert "looked at anew" in line["reason"]
    assert len(executions(aws, "scale_out")) == before
    assert lying(aws, queue) == 0


def test_who_only_reads_changes_nothing(aws: Control, as_person: Any) -> None:
    with pytest.raises(Exception, match=r"not authorized to perform: (events|sqs):"):
        as_person("read")


def test_a_queue_of_another_environment_is_refused(aws: Control, as_person: Any) -> None:
    with pytest.raises(
        ControlPlaneError, match="no queue payroll of this environment; there are: peaker-local-"
    ):
        as_person("operate", "payroll")
