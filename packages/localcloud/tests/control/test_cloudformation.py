"""Stacks: what a template's functions mean, what is created, changed, rolled back and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import TRUST, Control, eventually, unique
from cloud_rig.resources import SUBNET_A, SUBNET_B, ResourceCloud, open_cloud
from localcloud.extensions.cloudformation.resources import INERT, RESOURCE_TYPES
from localcloud.extensions.cloudformation.template import Scope, TemplateError, creation_order, resolve


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    with open_cloud(Path(tmp_path_factory.mktemp("cloud"))) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def aws(opened: ResourceCloud) -> Control:
    return Control(opened.cloud)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"Ref": "Queue"}, "id-of-Queue"),
        ({"Ref": "AWS::Region"}, "us-east-1"),
        ({"Fn::GetAtt": ["Queue", "Arn"]}, "Queue.Arn"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Queue"}]]}, "a-id-of-Queue"),
    ],
)
def test_an_intrinsic_function(value: Any, result: Any) -> None:
    scope = Scope({"AWS::Region": "us-east-1"}, physical_id=lambda name: f"id-of-{name}")
    assert resolve([{"a": value}], scope) == [{"a": result}]


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ({"Parameters": {"Stage": {"Type": "String"}}}, "no Parameters of a template"),
        ({"Resources": {"Q": {"Type": "AWS::RDS::DBCluster"}}}, r"resource types: \[AWS::RDS::DBCluster\]"),
    ],
)
def test_what_is_not_here_is_refused_before_anything_is_created(
    aws: Control, top: dict[str, Any], said: str
) -> None:
    kept = unique("kept")
    body = {"Resources": {"Queue": queue(QueueName=kept), **top.get("Resources", {})}}
    with pytest.raises(ClientError, match=said):
        aws.cloudformation.create_stack(StackName=unique("stack"), TemplateBody=json.dumps({**top, **body}))
    assert not aws.sqs.list_queues(QueueNamePrefix=kept).get("QueueUrls")


def test_a_function_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TemplateError, match="Fn::Cidr"):
        resolve({"Fn::Cidr": ["10.0.0.0/16", 2, 8]}, Scope({}))


def test_resources_come_after_what_they_refer_to() -> None:
    resources = {
        "A": {"Properties": {"x": {"Fn::GetAtt": ["B", "Arn"]}}},
        "B": {"DependsOn": "C", "Properties": {}},
        "C": {"Properties": {"y": {"Ref": "D"}}},
        "D": {},
    }
    assert creation_order(resources) == ["D", "C", "B", "A"]
    with pytest.raises(TemplateError, match="Circular"):
        creation_order({"A": {"Properties": {"Ref": "B"}}, "B": {"Properties": {"Ref": "A"}}})


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def create(aws: Control, resources: dict[str, Any]) -> str:
    name = unique("stack")
    body = json.dumps({"Resources": resources})
    aws.cloudformation.create_stack(StackName=name, TemplateBody=body)
    return name


def update(aws: Control, name: str, resources: dict[str, Any]) -> dict[str, Any]:
    aws.cloudformation.update_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))
    return settled(aws, name)


def settled(aws: Control, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        stack: dict[str, Any] = aws.cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

    found: dict[str, Any] = eventually(look)
    return found


def delete(aws: Control, name: str) -> dict[str, Any]:
    stack_id = aws.cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
    aws.cloudformation.delete_stack(StackName=name)
    return settled(aws, stack_id)


def events(aws: Control, name: str) -> list[tuple[str, str]]:
    found = aws.cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return [(event["LogicalResourceId"], event["ResourceStatus"]) for event in reversed(found)]


def test_a_failed_creation_rolls_back_and_names_the_resource(aws: Control) -> None:
    queue_name = unique("queue")
    resources = {
        "Queue": queue(QueueName=queue_name),
        "Broken": {**parameter("x", Sparkle=1), "DependsOn": "Queue"},
    }
    name = create(aws, resources)
    stack = settled(aws, name)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert stack["StackStatusReason"].startswith("Broken (AWS::SSM::Parameter): ")
    assert ("Broken", "CREATE_FAILED") in events(aws, name)
    assert ("Queue", "DELETE_COMPLETE") in events(aws, name)
    assert not aws.sqs.list_queues(QueueNamePrefix=queue_name).get("QueueUrls")


def parameter(value: str, **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value, **more}}


def test_an_update_changes_in_place_adds_and_removes(aws: Control) -> None:
    name = create(aws, {"Kept": parameter("old"), "Gone": parameter("x")})
    settled(aws, name)
    before = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in listed(aws, name)}
    stack = update(aws, name, {"Kept": parameter("new"), "Added": parameter("y")})
    assert stack["StackStatus"] == "UPDATE_COMPLETE"
    after = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in listed(aws, name)}
    assert set(after) == {"Kept", "Added"}
    assert after["Kept"] == before["Kept"]
    assert aws.ssm.get_parameter(Name=after["Kept"])["Parameter"]["Value"] == "new"
    with pytest.raises(ClientError, match="No updates are to be performed"):
        update(aws, name, {"Kept": parameter("new"), "Added": parameter("y")})


def listed(aws: Control, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aws.cloudformation.list_stack_resources(StackName=name)[
        "StackResourceSummaries"
    ]
    return found


def test_a_machine_is_updated_in_place_and_a_renamed_one_replaced(aws: Control) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}}

    def machine(state: str, name: str) -> dict[str, Any]:
        definition = {"QueryLanguage": "JSONata", "StartAt": state, "States": {state: {"Type": "Succeed"}}}
        properties = {
            "StateMachineName": name,
            "DefinitionString": json.dumps(definition),
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
        }
        return {
            "Role": role,
            "Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties},
        }

    one, two = unique("machine"), unique("machine")
    name = create(aws, machine("Old", one))
    settled(aws, name)
    assert update(aws, name, machine("New", one))["StackStatus"] == "UPDATE_COMPLETE"
    arn = next(r["PhysicalResourceId"] for r in listed(aws, name) if r["LogicalResourceId"] == "Machine")
    assert "New" in aws.stepfunctions.describe_state_machine(stateMachineArn=arn)["definition"]
    assert update(aws, name, machine("New", two))["StackStatus"] == "UPDATE_COMPLETE"
    assert listed(aws, name)[-1]["PhysicalResourceId"].endswith(two)


def test_a_failed_update_puts_the_old_state_back(aws: Control) -> None:
    name = create(aws, {"Kept": parameter("old")})
    settled(aws, name)
    broken = {"Kept": parameter("new"), "Broken": parameter("x", Sparkle=1)}
    stack = update(aws, name, broken)
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "Broken" in stack["StackStatusReason"]
    kept = listed(aws, name)
    assert [r["LogicalResourceId"] for r in kept] == ["Kept"]
    assert aws.ssm.get_parameter(Name=kept[0]["PhysicalResourceId"])["Parameter"]["Value"] == "old"


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate"])
def test_a_retained_resource_survives_its_stack(aws: Control, policy: str) -> None:
    name = create(aws, {"Kept": {**parameter("x"), "DeletionPolicy": policy}})
    settled(aws, name)
    physical = listed(aws, name)[0]["PhysicalResourceId"]
    assert delete(aws, name)["StackStatus"] == "DELETE_COMPLETE"
    assert aws.ssm.get_parameter(Name=physical)["Parameter"]["Value"] == "x"


@pytest.mark.parametrize(("policy", "kept"), [("Retain", True), ("RetainExceptOnCreate", False)])
def test_a_creation_that_fails_leaves_what_is_retained_in_the_way_of_the_next(
    aws: Control, policy: str, kept: bool
) -> None:
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": unique("/logs/group")}}
    resources = {"Kept": {**group, "DeletionPolicy": policy}}
    broken = {**parameter("x", Sparkle=1), "DependsOn": "Kept"}
    failed = create(aws, {**resources, "Broken": broken})
    assert settled(aws, failed)["StackStatus"] == "ROLLBACK_COMPLETE"
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        update(aws, failed, resources)
    again = settled(aws, create(aws, resources))
    assert again["StackStatus"] == ("ROLLBACK_COMPLETE" if kept else "CREATE_COMPLETE")
    assert ("ResourceAlreadyExistsException" in again.get("StackStatusReason", "")) == kept


def test_a_large_template_comes_from_s3_and_not_in_the_request(aws: Control) -> None:
    body = json.dumps({"Resources": {"P": parameter("x")}, "Description": "d" * 51_200})
    with pytest.raises(ClientError, match="less than or equal to 51200"):
        aws.cloudformation.create_stack(StackName=unique("stack"), TemplateBody=body)
    bucket, name = unique("templates"), unique("stack")
    aws.cloud.client("s3").create_bucket(Bucket=bucket)
    aws.cloud.client("s3").put_object(Bucket=bucket, Key="t.json", Body=body.encode())
    url = f"https://{bucket}.s3.us-east-1.amazonaws.com/t.json"
    aws.cloudformation.create_stack(StackName=name, TemplateURL=url)
    assert settled(aws, name)["StackStatus"] == "CREATE_COMPLETE"


def test_change_sets_are_refused_by_name(aws: Control) -> None:
    with pytest.raises(ClientError, match="no change sets"):
        aws.cloudformation.create_change_set(StackName="s", ChangeSetName="c", TemplateBody="{}")


def test_the_documented_inert_types_are_the_ones_that_do_nothing() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    missing = [name for name in INERT if name not in readme]
    assert not missing
    assert set(RESOURCE_TYPES) >= INERT


def test_the_weights_of_a_listener_and_a_groups_attributes_change_in_place(
    aws: Control, opened: ResourceCloud
) -> None:
    def resources(serving: int, warming: str, delay: int) -> dict[str, Any]:
        group = {
            "Protocol": "TCP", "Port": 3306, "VpcId": "vpc-0a770000000000001", "TargetType": "instance",
            "HealthCheckProtocol": "HTTP", "HealthCheckPort": "9200", "HealthCheckPath": "/",
            "HealthCheckIntervalSeconds": delay,
            "TargetGroupAttributes": [
                {"Key": "deregistration_delay.timeout_seconds", "Value": str(delay)}
            ],
        }  # fmt: skip
        groups = [
            {"TargetGroupArn": {"Ref": "Serving"}, "Weight": serving},
            {"TargetGroupArn": {"Ref": "Warming"}, "Weight": warming},
        ]
        return {
            "Balancer": {
                "Type": "AWS::ElasticLoadBalancingV2::LoadBalancer",
                "Properties": {"Type": "network", "Scheme": "internal", "Subnets": [SUBNET_A]},
            },
            "Serving": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": group},
            "Warming": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": group},
            "Listener": {
                "Type": "AWS::ElasticLoadBalancingV2::Listener",
                "Properties": {
                    "LoadBalancerArn": {"Ref": "Balancer"}, "Port": 21307, "Protocol": "TCP",
                    "DefaultActions": [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}],
                },
            },
        }  # fmt: skip

    def weights(listener: str) -> list[int]:
        found = aws.elbv2.describe_listeners(ListenerArns=[listener])["Listeners"][0]["DefaultActions"][0]
        return [group["Weight"] for group in found["ForwardConfig"]["TargetGroups"]]

    def physical_ids(name: str) -> dict[str, str]:
        found = listed(aws, name)
        return {entry["LogicalResourceId"]: entry["PhysicalResourceId"] for entry in found}

    name = create(aws, resources(999, "1", 60))
    assert settled(aws, name)["StackStatus"] == "CREATE_COMPLETE"
    made = physical_ids(name)
    assert weights(made["Listener"]) == [999, 1]
    assert update(aws, name, resources(1, "999", 120))["StackStatus"] == "UPDATE_COMPLETE"
    assert physical_ids(name) == made
    assert weights(made["Listener"]) == [1, 999]
    for group in (made["Serving"], made["Warming"]):
        attributes = aws.elbv2.describe_target_group_attributes(TargetGroupArn=group)["Attributes"]
        assert {"Key": "deregistration_delay.timeout_seconds", "Value": "120"} in attributes
        described = aws.elbv2.describe_target_groups(TargetGroupArns=[group])["TargetGroups"][0]
        assert described["HealthCheckIntervalSeconds"] == 120
        assert len(described["LoadBalancerArns"]) == 1
    assert sum(spec.listener_port == 21307 for spec in opened.plane.endpoints.specs.values()) == 1
    assert delete(aws, name)["StackStatus"] == "DELETE_COMPLETE"


def test_a_load_balancer_changes_its_subnets_in_place_but_not_that_of_a_zone(aws: Control) -> None:
    vpc = aws.ec2.describe_subnets(SubnetIds=[SUBNET_A])["Subnets"][0]["VpcId"]
    other = aws.ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.8.0/24", AvailabilityZone="us-east-1a")

    def balancer(*subnets: str) -> dict[str, Any]:
        properties = {"Type": "network", "Scheme": "internal", "Name": "stays", "Subnets": list(subnets)}
        return {"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": properties}}

    name = create(aws, balancer(SUBNET_A))
    settled(aws, name)
    made = listed(aws, name)[0]["PhysicalResourceId"]
    assert update(aws, name, balancer(SUBNET_A, SUBNET_B))["StackStatus"] == "UPDATE_COMPLETE"
    refused = update(aws, name, balancer(other["Subnet"]["SubnetId"], SUBNET_B))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "already associated with the load balancer" in refused["StackStatusReason"]
    assert listed(aws, name)[0]["PhysicalResourceId"] == made
    delete(aws, name)


def test_what_keeps_its_given_name_cannot_be_replaced(aws: Control) -> None:
    def group(port: int, name: str = "keeps-its-name") -> dict[str, Any]:
        properties = {
            "Name": name, "Protocol": "TCP", "Port": port, "VpcId": "vpc-0a770000000000001", "TargetType": "instance",
            "HealthCheckProtocol": "HTTP", "HealthCheckPort": "9200",
        }  # fmt: skip
        return {"Group": {"Type": "AWS::ElasticLoadBalancingV2::TargetGroup", "Properties": properties}}

    name = create(aws, group(3306))
    settled(aws, name)
    refused = update(aws, name, group(3307))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing. Rename keeps-its-name" in refused["StackStatusReason"]
    kept = aws.elbv2.describe_target_groups(Names=["keeps-its-name"])["TargetGroups"][0]
    assert kept["Port"] == 3306
    assert update(aws, name, group(3307, "has-another"))["StackStatus"] == "UPDATE_COMPLETE"
    delete(aws, name)


def test_a_protected_stack_is_not_deleted(aws: Control) -> None:
    name, kept = unique("stack"), unique("kept")
    body = json.dumps({"Resources": {"Queue": queue(QueueName=kept)}})
    aws.cloudformation.create_stack(StackName=name, TemplateBody=body, EnableTerminationProtection=True)
    assert settled(aws, name)["EnableTerminationProtection"]
    with pytest.raises(
        ClientError, match=rf"\[{name}\] cannot be deleted while TerminationProtection is enabled"
    ):
        aws.cloudformation.delete_stack(StackName=name)
    assert settled(aws, name)["StackStatus"] == "CREATE_COMPLETE"
    assert aws.sqs.get_queue_url(QueueName=kept)["QueueUrl"]
    aws.cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
    assert delete(aws, name)["StackStatus"] == "DELETE_COMPLETE"
