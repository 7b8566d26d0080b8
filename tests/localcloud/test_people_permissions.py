"""The permission sets of people: enough for their part of the command, refused beyond it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker_cli.control_plane import ControlPlane

from environments.schema import load_environment
from stacks.naming import Names
from stacks.people_statements import statements_for
from stacks.role_statements import policy_document
from tests.localcloud.control import ROLE, Control, control

NAMES = Names(load_environment("local"))
PASS = {"StartAt": "End", "States": {"End": {"Type": "Pass", "End": True}}}
SETS = ("read", "operate")
ACCOUNT_ROOT = {"AWS": "arn:aws:iam::123456789012:root"}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        keys = [("pk", "HASH"), ("sk", "RANGE")]
        opened.dynamodb.create_table(
            TableName=NAMES.ledger_table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        for workflow in ("scale_out", "prewarm"):
            opened.stepfunctions.create_state_machine(
                name=NAMES.state_machine(workflow), definition=json.dumps(PASS), roleArn=ROLE
            )
        yield opened


@pytest.fixture
def people(aws: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ControlPlane]:
    """A control plane per set, each by a profile whose role holds exactly that set."""
    credentials, found = tmp_path / "credentials", {}
    trust = {"Effect": "Allow", "Principal": ACCOUNT_ROOT, "Action": "sts:AssumeRole"}
    lines = []
    for who in SETS:
        document = json.dumps(policy_document(statements_for(who, NAMES)))
        if who not in {role["RoleName"] for role in aws.iam.list_roles()["Roles"]}:
            trusted = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
            aws.iam.create_role(RoleName=who, AssumeRolePolicyDocument=trusted)
        aws.iam.put_role_policy(RoleName=who, PolicyName="set", PolicyDocument=document)
        arn = f"arn:aws:iam::123456789012:role/{who}"
        keys = aws.sts.assume_role(RoleArn=arn, RoleSessionName="dba")["Credentials"]
        lines += [f"[{who}]", f"aws_access_key_id={keys['AccessKeyId']}"]
        lines += [
            f"aws_secret_access_key={keys['SecretAccessKey']}",
            f"aws_session_token={keys['SessionToken']}",
        ]
        found[who] = ControlPlane("local", "us-east-1", aws.cloud.endpoint_url, who)
    credentials.write_text("\n".join(lines))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    return found


@pytest.mark.parametrize("who", SETS)
def test_whoever_reads_sees_runs_and_executions(
    people: dict[str, ControlPlane], aws: Control, who: str
) -> None:
    person = people[who]
    execution = aws.start(NAMES.state_machine_arn("scale_out"))
    assert list(person.runs("orders", 10)) == []
    assert person.state_machine_arn("scale_out") == NAMES.state_machine_arn("scale_out")
    assert person.describe(execution).arn == execution


def test_an_operator_starts_a_workflow_and_a_reader_does_not(people: dict[str, ControlPlane]) -> None:
    assert people["operate"].start("scale_out", {"cluster": "orders"})
    with pytest.raises(Exception, match="not authorized to perform: states:StartExecution"):
        people["read"].start("scale_out", {"cluster": "orders"})


@pytest.mark.parametrize("who", SETS)
def test_nobody_of_them_does_what_the_workflows_do(people: dict[str, ControlPlane], who: str) -> None:
    client = people[who].client
    calls: tuple[Callable[[], Any], ...] = (
        lambda: client("ec2").terminate_instances(InstanceIds=["i-0123456789abcdef0"]),
        lambda: client("ec2").delete_volume(VolumeId="vol-0123456789abcdef0"),
        lambda: client("ssm").send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=["i-0123456789abcdef0"]
        ),
        lambda: client("dynamodb").put_item(
            TableName=NAMES.ledger_table, Item={"pk": {"S": "a"}, "sk": {"S": "b"}}
        ),
        lambda: client("stepfunctions").start_execution(stateMachineArn=NAMES.state_machine_arn("prewarm")),
    )
    for call in calls:
        with pytest.raises(ClientError, match="not authorized to perform"):
            call()
