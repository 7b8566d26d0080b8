"""The permission sets of people: enough for their part of the command, refused beyond it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor.finding import NotTold
from peaker_cli.doctor.gather import Inquiry

from cloud_rig.control import ROLE, Control, control
from cloud_rig.resources import IMAGE, SUBNET_A
from environments.schema import load_environment
from localcloud.simulated_dataplane import simulated_dataplane
from peaker_contract.cluster import ClusterSettings, deployed_document
from peaker_contract.endpoint_settings import NlbEndpointSettings
from stacks.naming import Names
from stacks.people_statements import statements_for
from stacks.rights.role_statements import policy_document

LOCAL = load_environment("local")
NAMES = Names(LOCAL)
PASS = {"StartAt": "End", "States": {"End": {"Type": "Pass", "End": True}}}
SETS = ("read", "operate")
ACCOUNT_ROOT = {"AWS": "arn:aws:iam::123456789012:root"}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), dataplane=simulated_dataplane()) as opened:
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


@pytest.mark.parametrize("who", SETS)
def test_whoever_reads_learns_what_an_image_is_billed_as(people: dict[str, ControlPlane], who: str) -> None:
    """Or no price of an instance would be known to status, month and backtest."""
    compute = Ec2Compute(people[who].client("ec2"), "local")
    assert compute.platform(IMAGE) == "Linux/UNIX"


def test_an_operator_starts_a_workflow_and_a_reader_does_not(people: dict[str, ControlPlane]) -> None:
    assert people["operate"].start("scale_out", {"cluster": "orders"})
    with pytest.raises(Exception, match="not authorized to perform: states:StartExecution"):
        people["read"].start("scale_out", {"cluster": "orders"})


DOCUMENTS = ("install_host_package", "prepare_base", "stop_database")


@pytest.fixture
def hosts(aws: Control) -> dict[str, str]:
    """A running instance per role, and the documents."""
    known = {one["Name"] for one in aws.ssm.list_documents()["DocumentIdentifiers"]}
    step = {"action": "aws:runShellScript", "name": "run", "inputs": {"runCommand": ["true"]}}
    content = json.dumps({"schemaVersion": "2.2", "mainSteps": [step]})
    for name in {NAMES.document(document) for document in DOCUMENTS} - known:
        aws.ssm.create_document(Name=name, Content=content, DocumentType="Command", DocumentFormat="JSON")
    made = {}
    for role in ("replica", "source"):
        given = {"environment": "local", "cluster": "orders", "role": role}
        tags = [{"Key": f"peaker:{key}", "Value": value} for key, value in given.items()]
        answer = aws.ec2.run_instances(
            ImageId=IMAGE, InstanceType="r6i.large", SubnetId=SUBNET_A, MinCount=1, MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )  # fmt: skip
        made[role] = answer["Instances"][0]["InstanceId"]
    return made


def send(person: ControlPlane, document: str, instance_id: str) -> str:
    """`refused`, or `allowed` whatever else AWS says of it."""
    try:
        person.client("ssm").send_command(DocumentName=NAMES.document(document), InstanceIds=[instance_id])
    except ClientError as error:
        return "refused" if "not authorized to perform: ssm:SendCommand" in str(error) else "allowed"
    return "allowed"


def test_an_operator_prepares_a_base_replica_and_nothing_else(
    people: dict[str, ControlPlane], hosts: dict[str, str]
) -> None:
    operator = people["operate"]
    for document in ("install_host_package", "prepare_base"):
        assert send(operator, document, hosts["replica"]) == "allowed"
        assert send(operator, document, hosts["source"]) == "refused"
    assert send(operator, "stop_database", hosts["replica"]) == "refused"
    assert send(people["read"], "prepare_base", hosts["replica"]) == "refused"


def test_an_operator_signs_the_address_of_the_host_package(people: dict[str, ControlPlane]) -> None:
    """The key and the hash are those of the functions; of their other parts nothing can be changed."""
    functions = people["operate"].client("lambda")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        functions.get_function_configuration(FunctionName=NAMES.function("install_host_package"))
    with pytest.raises(ClientError, match="not authorized to perform: lambda:GetFunctionConfiguration"):
        functions.get_function_configuration(FunctionName=NAMES.function("undo_run"))
    package = {"Bucket": "cdk-hnb659fds-assets-123456789012-us-east-1", "Key": "ab.pyz"}
    with pytest.raises(ClientError, match="NoSuch"):
        people["operate"].client("s3").get_object(**package)
    with pytest.raises(ClientError, match=r"not authorized to perform: s3:GetObject|AccessDenied"):
        people["read"].client("s3").get_object(**package)
    with pytest.raises(ClientError, match="not authorized to perform: s3:GetObject"):
        people["operate"].client("s3").get_object(**{**package, "Key": "another-product.zip"})


@pytest.mark.parametrize("who", SETS)
def test_whoever_reads_sees_the_share_of_reads(people: dict[str, ControlPlane], who: str) -> None:
    """`peaker status` asks for the listener's weights and the health of its groups; nothing is deployed here."""
    settings = deployed_settings()
    arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:listener/net/peaker-local-orders/0123/4567"
    assert isinstance(settings.read_endpoint, NlbEndpointSettings)
    endpoint = settings.read_endpoint.model_copy(update={"listener_arn": arn})
    with pytest.raises(Exception, match="ListenerNotFound"):
        read_endpoints(people[who].client).read_shares(
            settings.model_copy(update={"read_endpoint": endpoint})
        )


def test_an_operator_asks_all_that_the_doctor_asks_and_a_reader_does_not(
    people: dict[str, ControlPlane],
) -> None:
    """Nothing is deployed here, so what is asked for is not there: only refusals count."""
    settings = deployed_settings()
    for who, refused in (("operate", False), ("read", True)):
        asked = Inquiry(people[who].client, settings, people[who].clock.now())
        endpoint = asked.endpoint()
        told = [
            asked.instances(), asked.volumes("i-0123456789abcdef0"), asked.agent("i-0123456789abcdef0"), endpoint,
            asked.account([]), asked.network([], None, endpoint), asked.metrics(), asked.deployed(),
        ]  # fmt: skip
        denied = {one.permission for one in not_told(told) if one.permission}
        assert bool(denied) is refused, denied
    for role in ("Peaker-local-ControlPlane-LaunchReplicaRole", "other"):
        asked_of = people["operate"].client("iam")
        error = "NoSuchEntity" if role.startswith("Peaker") else "not authorized"
        with pytest.raises(ClientError, match=error):
            asked_of.list_role_policies(RoleName=role)


def deployed_settings() -> ClusterSettings:
    [cluster] = NAMES.environment.clusters
    return ClusterSettings.model_validate(
        deployed_document(cluster, environment="local", region="us-east-1", endpoint={})
    )


def not_told(found: Any) -> Iterator[NotTold]:
    """Every answer that was refused, however deep it lies."""
    if isinstance(found, NotTold):
        yield found
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from not_told(one)
    elif isinstance(found, dict):
        yield from not_told(list(found.values()))
    elif is_dataclass(found) and not isinstance(found, type):
        yield from not_told([getattr(found, one.name) for one in fields(found)])
