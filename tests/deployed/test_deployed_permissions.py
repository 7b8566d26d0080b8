"""The product as synthesised, deployed: who is let through, and what no role of it may do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import OPEN_QUEUE, eventually, unique
from cloud_rig.resources import IMAGE, SUBNET_A, ResourceCloud, open_cloud
from environments.schema import Environment, load_environment
from localcloud.deploy import deploy
from localcloud.extensions.events.eventbridge import Delivery, authorize, authorize_dead_letter
from peaker_contract.catalogue import FUNCTIONS
from stacks import application
from stacks.application import build_app
from stacks.naming import Names

ACCOUNT = "123456789012"
NAMES = Names(load_environment("local"))
OPERATOR_TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:peaker-local-operator-alarms"
WORKFLOWS = ("prewarm", "scale_out", "scale_in", "roll_back")


def with_operators(name: str) -> Environment:
    return load_environment(name).model_copy(update={"alarm_email": "dba@example.com"})


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    """The local environment, with operators to be told."""
    folder = Path(tmp_path_factory.mktemp("product"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", with_operators)
        build_app(environment="local", output=folder / "cdk.out", context={"bundle": "sources"}).synth()
    with open_cloud(folder / "cloud") as opened:
        deploy(folder / "cdk.out", opened.cloud.endpoint_url)
        yield opened


# -- what must get through ------------------------------------------------------------------------------------


def test_an_alarm_pages_the_operators(aws: ResourceCloud) -> None:
    queue = unique("pager")
    url = aws.sqs.create_queue(QueueName=queue, Attributes={"Policy": json.dumps(OPEN_QUEUE)})["QueueUrl"]
    endpoint = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
    aws.sns.subscribe(TopicArn=OPERATOR_TOPIC, Protocol="sqs", Endpoint=endpoint)
    name = "peaker-local-scale_out-workflow-failed"
    aws.cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="a run failed")
    received = eventually(lambda: aws.sqs.receive_message(QueueUrl=url).get("Messages"))
    assert json.loads(json.loads(received[0]["Body"])["Message"])["AlarmName"] == name


def test_every_alarm_may_reach_the_operators_and_nobody_elses_alarm_does(aws: ResourceCloud) -> None:
    alarms = aws.cloudwatch.describe_alarms()["MetricAlarms"]
    telling = [alarm for alarm in alarms if alarm["AlarmActions"]]
    assert len(telling) > len(WORKFLOWS)
    cloudwatch = "cloudwatch.amazonaws.com"
    for alarm in telling:
        for topic in alarm["AlarmActions"]:
            authorize(aws.cloud, Delivery(alarm["AlarmArn"], topic, "", service=cloudwatch))
    foreign = f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:another-product"
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize(aws.cloud, Delivery(foreign, OPERATOR_TOPIC, "", service=cloudwatch))


def test_every_rule_may_reach_its_target_and_its_dead_letters(aws: ResourceCloud) -> None:
    rules = aws.events.list_rules()["Rules"]
    assert len(rules) >= 6
    for rule in rules:
        for target in aws.events.list_targets_by_rule(Rule=rule["Name"])["Targets"]:
            delivery = Delivery(rule["Arn"], target["Arn"], "{}", target)
            authorize(aws.cloud, delivery)
            authorize_dead_letter(aws.cloud, delivery, target["DeadLetterConfig"]["Arn"])


def test_a_rule_reaches_no_other_rules_dead_letters(aws: ResourceCloud) -> None:
    first, second = aws.events.list_rules()["Rules"][:2]
    [target] = aws.events.list_targets_by_rule(Rule=first["Name"])["Targets"]
    delivery = Delivery(second["Arn"], target["Arn"], "{}", target)
    with pytest.raises(ClientError, match="AccessDenied"):
        authorize_dead_letter(aws.cloud, delivery, target["DeadLetterConfig"]["Arn"])


# -- what no role may do --------------------------------------------------------------------------------------


@dataclass
class Foreign:
    """What is not Peaker's, or not this environment's: ids to be refused."""

    aws: ResourceCloud
    untagged_instance: str
    source: str
    other_environments_instance: str
    twin: str
    parked: str
    untagged_volume: str
    other_environments_volume: str
    untagged_snapshot: str
    group: str


@pytest.fixture(scope="module")
def foreign(aws: ResourceCloud) -> Foreign:
    def tagged(kind: str, **tags: str) -> list[dict[str, Any]]:
        given = [{"Key": f"peaker:{key}", "Value": value} for key, value in tags.items()]
        return [{"ResourceType": kind, "Tags": given}]

    aws.iam.create_role(RoleName="foreign-role", AssumeRolePolicyDocument="{}")
    aws.iam.create_instance_profile(InstanceProfileName="foreign-profile")
    aws.iam.add_role_to_instance_profile(InstanceProfileName="foreign-profile", RoleName="foreign-role")
    volume = aws.available_volume()
    theirs = aws.available_volume(TagSpecifications=tagged("volume", owner="prod", cluster="orders"))
    probe = {"HealthCheckProtocol": "HTTP", "HealthCheckPort": "9200", "HealthCheckPath": "/"}
    group = aws.elbv2.create_target_group(
        Name="foreign", Protocol="TCP", Port=3306, VpcId="vpc-0a770000000000001", **probe
    )
    return Foreign(
        aws,
        untagged_instance=aws.launched(),
        source=aws.launched(TagSpecifications=tagged("instance", cluster="orders", role="source")),
        other_environments_instance=aws.launched(
            TagSpecifications=tagged("instance", owner="prod", cluster="invoices", role="replica")
        ),
        # The base replica of a cluster of the same name, in another environment of this account.
        twin=aws.launched(
            TagSpecifications=tagged("instance", environment="prod", cluster="orders", role="replica")
        ),
        parked=aws.launched(
            TagSpecifications=tagged(
                "instance", owner="local", environment="local", cluster="orders", role="replica"
            )
        ),
        untagged_volume=volume,
        other_environments_volume=theirs,
        untagged_snapshot=aws.completed_snapshot(volume),
        group=group["TargetGroups"][0]["TargetGroupArn"],
    )


OTHERS_TAG = [{"Key": "peaker:owner", "Value": "local"}]
Call = Callable[[Any, Foreign], Any]


def _tags(kind: str, owner: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": "peaker:owner", "Value": owner}]}]


def _launch(owner: str, **changes: Any) -> dict[str, Any]:
    return {
        "ImageId": IMAGE,
        "InstanceType": "r6i.large",
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": SUBNET_A,
        "SecurityGroupIds": ["sg-0a770000000000001"],
        "TagSpecifications": [*_tags("instance", owner), *_tags("volume", owner)],
        **changes,
    }


# (service, call): every one refused to every role.
FORBIDDEN: dict[str, tuple[str, Call]] = {
    "terminate an untagged instance": (
        "ec2", lambda c, f: c.terminate_instances(InstanceIds=[f.untagged_instance])),
    "terminate the source": ("ec2", lambda c, f: c.terminate_instances(InstanceIds=[f.source])),
    "terminate another environment's replica": (
        "ec2", lambda c, f: c.terminate_instances(InstanceIds=[f.other_environments_instance])),
    "terminate a foreign one beside an own one": (
        "ec2", lambda c, f: c.terminate_instances(InstanceIds=[f.parked, f.untagged_instance])),
    "stop the source": ("ec2", lambda c, f: c.stop_instances(InstanceIds=[f.source])),
    "start another environment's replica": (
        "ec2", lambda c, f: c.start_instances(InstanceIds=[f.other_environments_instance])),
    "reboot an own replica": ("ec2", lambda c, f: c.reboot_instances(InstanceIds=[f.parked])),
    "delete a foreign volume": ("ec2", lambda c, f: c.delete_volume(VolumeId=f.untagged_volume)),
    "delete another environment's volume": (
        "ec2", lambda c, f: c.delete_volume(VolumeId=f.other_environments_volume)),
    "detach a foreign volume": ("ec2", lambda c, f: c.detach_volume(VolumeId=f.untagged_volume)),
    "attach a foreign volume to an own replica": (
        "ec2",
        lambda c, f: c.attach_volume(VolumeId=f.untagged_volume, InstanceId=f.parked, Device="/dev/sdf")),
    "delete a foreign snapshot": ("ec2", lambda c, f: c.delete_snapshot(SnapshotId=f.untagged_snapshot)),
    "snapshot the source": (
        "ec2",
        lambda c, f: c.create_snapshots(
            InstanceSpecification={"InstanceId": f.source}, TagSpecifications=_tags("snapshot", "local"))),
    "make a volume from a foreign snapshot": (
        "ec2",
        lambda c, f: c.create_volume(
            AvailabilityZone="us-east-1a", SnapshotId=f.untagged_snapshot,
            TagSpecifications=_tags("volume", "local"))),
    "make a volume without the owner tag": (
        "ec2", lambda c, f: c.create_volume(AvailabilityZone="us-east-1a", Size=1)),
    "make a volume with another environment's tag": (
        "ec2",
        lambda c, f: c.create_volume(
            AvailabilityZone="us-east-1a", Size=1, TagSpecifications=_tags("volume", "prod"))),
    "put the owner tag on a foreign instance": (
        "ec2", lambda c, f: c.create_tags(Resources=[f.untagged_instance], Tags=OTHERS_TAG)),
    "put the owner tag on a foreign volume": (
        "ec2", lambda c, f: c.create_tags(Resources=[f.untagged_volume], Tags=OTHERS_TAG)),
    "take a tag off an own replica": (
        "ec2", lambda c, f: c.delete_tags(Resources=[f.parked], Tags=[{"Key": "peaker:owner"}])),
    "launch without the owner tag": ("ec2", lambda c, f: c.run_instances(**_launch("local", TagSpecifications=[]))),
    "launch with another environment's tag": ("ec2", lambda c, f: c.run_instances(**_launch("prod"))),
    "launch another image": (
        "ec2", lambda c, f: c.run_instances(**_launch("local", ImageId="ami-0b0d000000000000f"))),
    "launch into another security group": (
        "ec2",
        lambda c, f: c.run_instances(**_launch("local", SecurityGroupIds=["sg-0b0d000000000000f"]))),
    "launch with another role": (
        "ec2",
        lambda c, f: c.run_instances(**_launch("local", IamInstanceProfile={"Name": "foreign-profile"}))),
    "command the source": (
        "ssm",
        lambda c, f: c.send_command(DocumentName="Peaker-local-report_health", InstanceIds=[f.source])),
    "command an untagged host": (
        "ssm",
        lambda c, f: c.send_command(DocumentName="Peaker-local-stop_database", InstanceIds=[f.untagged_instance])),
    "command another cluster's replica": (
        "ssm",
        lambda c, f: c.send_command(
            DocumentName="Peaker-local-start_prewarm", InstanceIds=[f.other_environments_instance])),
    "command the replica of another environment's cluster of the same name": (
        "ssm", lambda c, f: c.send_command(DocumentName="Peaker-local-prepare_donor", InstanceIds=[f.twin])),
    "snapshot the replica of another environment's cluster of the same name": (
        "ec2",
        lambda c, f: c.create_snapshots(
            InstanceSpecification={"InstanceId": f.twin}, TagSpecifications=_tags("snapshot", "local"))),
    "publish another environment's metrics": (
        "cloudwatch",
        lambda c, f: c.put_metric_data(Namespace="Peaker/prod", MetricData=[{"MetricName": "m", "Value": 1}])),
    "run a shell script on an own replica": (
        "ssm",
        lambda c, f: c.send_command(
            DocumentName="AWS-RunShellScript", InstanceIds=[f.parked], Parameters={"commands": ["id"]})),
    "use another environment's document": (
        "ssm",
        lambda c, f: c.send_command(DocumentName="Peaker-prod-stop_database", InstanceIds=[f.parked])),
    "read another environment's settings": (
        "ssm", lambda c, f: c.get_parameter(Name="/peaker/prod/clusters/orders")),
    "write its own settings": (
        "ssm", lambda c, f: c.put_parameter(Name="/peaker/local/clusters/orders", Value="{}", Overwrite=True)),
    "write another environment's ledger": (
        "dynamodb",
        lambda c, f: c.put_item(TableName="peaker-prod-ledger", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})),
    "delete a row of the ledger": (
        "dynamodb",
        lambda c, f: c.delete_item(TableName=NAMES.ledger_table, Key={"pk": {"S": "a"}, "sk": {"S": "b"}})),
    "register at a foreign target group": (
        "elbv2", lambda c, f: c.register_targets(TargetGroupArn=f.group, Targets=[{"Id": f.parked}])),
    "deregister from a foreign target group": (
        "elbv2", lambda c, f: c.deregister_targets(TargetGroupArn=f.group, Targets=[{"Id": f.parked}])),
    "publish under another namespace": (
        "cloudwatch",
        lambda c, f: c.put_metric_data(Namespace="AWS/Demand", MetricData=[{"MetricName": "m", "Value": 1}])),
    "silence an operator alarm": (
        "cloudwatch", lambda c, f: c.delete_alarms(AlarmNames=["peaker-local-scale_out-workflow-failed"])),
    "read another bucket": ("s3", lambda c, f: c.get_object(Bucket="foreign-bucket", Key="k")),
    "write another bucket": ("s3", lambda c, f: c.put_object(Bucket="foreign-bucket", Key="k", Body=b"")),
    "invoke a foreign function": ("lambda", lambda c, f: c.invoke(FunctionName="foreign-function")),
    "start a foreign workflow": (
        "stepfunctions",
        lambda c, f: c.start_execution(
            stateMachineArn=f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:foreign")),
}  # fmt: skip
ROLES = [f"function {one.name}" for one in FUNCTIONS] + [f"workflow {one}" for one in WORKFLOWS]


def role_of(aws: ResourceCloud, name: str) -> tuple[str, str]:
    """(ARN, the service that acts as it) of the deployed role."""
    kind, _, short = name.partition(" ")
    if kind == "function":
        found = getattr(aws, "lambda").get_function_configuration(FunctionName=NAMES.function(short))
        return str(found["Role"]), "lambda.amazonaws.com"
    arn = NAMES.state_machine_arn(short)
    return str(
        aws.stepfunctions.describe_state_machine(stateMachineArn=arn)["roleArn"]
    ), "states.amazonaws.com"


@pytest.mark.parametrize("name", ROLES)
def test_no_role_may_do_what_is_forbidden(aws: ResourceCloud, foreign: Foreign, name: str) -> None:
    role, service = role_of(aws, name)
    went_through = []
    for what, (api, call) in FORBIDDEN.items():
        try:
            call(aws.cloud.client_as(role, "forbidden", service, api), foreign)
        except ClientError as error:
            refused = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
            if error.response["Error"]["Code"] in refused and "not authorized to perform" in str(error):
                continue
            went_through.append(f"{what}: {error}")
        else:
            went_through.append(what)
    assert went_through == []
