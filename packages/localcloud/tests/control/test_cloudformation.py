"""Stacks: what a template's functions mean, what is created, changed, rolled back and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import TRUST, Control, eventually, packed, unique
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


SCOPE = Scope(
    {"AWS::Region": "us-east-1", "AWS::AccountId": "123456789012"},
    {"Stage": "prod", "Zones": ["a", "b"]},
    {"IsProd": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]}, "IsDev": {"Fn::Not": [{"Condition": "IsProd"}]}},
    {"Sizes": {"prod": {"Memory": 512}}},
    physical_id=lambda name: f"id-of-{name}",
)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"Ref": "Queue"}, "id-of-Queue"),
        ({"Ref": "AWS::Region"}, "us-east-1"),
        ({"Fn::GetAtt": ["Queue", "Arn"]}, "Queue.Arn"),
        ({"Fn::GetAtt": "Queue.Arn"}, "Queue.Arn"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}]]}, "a-prod"),
        (
            {"Fn::Sub": "${Stage}/${Queue.Arn}/${!literal}/${AWS::Region}"},
            "prod/Queue.Arn/${literal}/us-east-1",
        ),
        ({"Fn::Sub": ["${Name}", {"Name": {"Ref": "Stage"}}]}, "prod"),
        ({"Fn::Select": [1, {"Fn::Split": [",", "a,b"]}]}, "b"),
        ({"Fn::If": ["IsProd", 1, 2]}, 1),
        ({"a": {"Fn::If": ["IsDev", 1, {"Ref": "AWS::NoValue"}]}, "b": 2}, {"b": 2}),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Stage"}, "Memory"]}, 512),
        ({"Fn::ToJsonString": {"a": {"Ref": "Stage"}}}, '{"a": "prod"}'),
        ({"Fn::Base64": "a"}, "YQ=="),
    ],
)
def test_an_intrinsic_function(value: Any, result: Any) -> None:
    assert resolve(value, SCOPE) == result


def test_a_function_that_is_not_there_is_an_error() -> None:
    with pytest.raises(TemplateError, match="Fn::Cidr"):
        resolve({"Fn::Cidr": ["10.0.0.0/16", 2, 8]}, SCOPE)


def test_resources_come_after_what_they_refer_to() -> None:
    resources = {
        "A": {"Properties": {"x": {"Fn::Sub": "${B.Arn}"}}},
        "B": {"DependsOn": "C", "Properties": {}},
        "C": {"Properties": {"y": {"Ref": "D"}}},
        "D": {},
    }
    assert creation_order(resources) == ["D", "C", "B", "A"]
    with pytest.raises(TemplateError, match="Circular"):
        creation_order({"A": {"Properties": {"Ref": "B"}}, "B": {"Properties": {"Ref": "A"}}})


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def create(aws: Control, resources: dict[str, Any], **top: Any) -> str:
    name = unique("stack")
    body = json.dumps({"Resources": resources, **top})
    aws.cloudformation.create_stack(StackName=name, TemplateBody=body)
    return name


def update(aws: Control, name: str, resources: dict[str, Any], **top: Any) -> dict[str, Any]:
    aws.cloudformation.update_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources, **top}))
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


def outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def events(aws: Control, name: str) -> list[tuple[str, str]]:
    found = aws.cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return [(event["LogicalResourceId"], event["ResourceStatus"]) for event in reversed(found)]


def control_plane(aws: Control) -> dict[str, Any]:
    """One of each thing that the product deploys."""
    bucket = unique("bucket")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_object(
        Bucket=bucket, Key="code.zip", Body=packed("def handler(event, context): return {'got': event}")
    )
    definition = {
        "QueryLanguage": "JSONata",
        "StartAt": "Call",
        "States": {
            "Call": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "Arguments": {"FunctionName": "${CallArn}", "Payload": "{% $states.input %}"},
                "Output": "{% $states.result.Payload %}",
                "TimeoutSeconds": 300,
                "End": True,
            }
        },
    }
    step = {"action": "aws:runShellScript", "name": "Run", "inputs": {"runCommand": ["true"]}}
    return {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        "Policy": {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyName": "calls",
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Action": ["lambda:InvokeFunction", "states:StartExecution"],
                            "Resource": "*",
                        }
                    ],
                },
                "Roles": [{"Ref": "Role"}],
            },
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "DependsOn": ["Policy"],
            "Properties": {
                "Code": {"S3Bucket": bucket, "S3Key": "code.zip"},
                "Handler": "app.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Timeout": "20",
                "Environment": {"Variables": {"TABLE": {"Ref": "Table"}}},
            },
        },
        "Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Fn::GetAtt": ["Function", "Arn"]},
                "Principal": "events.amazonaws.com",
            },
        },
        "Machine": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "DefinitionString": json.dumps(definition),
                "DefinitionSubstitutions": {"CallArn": {"Fn::GetAtt": ["Function", "Arn"]}},
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        },
        "Document": {
            "Type": "AWS::SSM::Document",
            "Properties": {
                "Name": unique("Document"),
                "DocumentType": "Command",
                "Content": {"schemaVersion": "2.2", "description": "d", "mainSteps": [step]},
                "UpdateMethod": "NewVersion",
            },
        },
        "Parameter": {
            "Type": "AWS::SSM::Parameter",
            "Properties": {"Type": "String", "Value": {"Ref": "TargetGroup"}},
        },
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
                "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
            },
        },
        "Balancer": {
            "Type": "AWS::ElasticLoadBalancingV2::LoadBalancer",
            "Properties": {"Type": "network", "Scheme": "internal", "Subnets": [SUBNET_A]},
        },
        "TargetGroup": {
            "Type": "AWS::ElasticLoadBalancingV2::TargetGroup",
            "Properties": {
                "Protocol": "TCP",
                "Port": 3306,
                "VpcId": "vpc-0a770000000000001",
                "TargetType": "instance",
                "HealthCheckProtocol": "HTTP",
                "HealthCheckPort": "9200",
                "HealthCheckPath": "/",
                "TargetGroupAttributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "120"}],
            },
        },
        "Listener": {
            "Type": "AWS::ElasticLoadBalancingV2::Listener",
            "Properties": {
                "LoadBalancerArn": {"Ref": "Balancer"},
                "Port": 21306,
                "Protocol": "TCP",
                "DefaultActions": [{"Type": "forward", "TargetGroupArn": {"Ref": "TargetGroup"}}],
            },
        },
        "DeadLetters": queue(MessageRetentionPeriod=1209600),
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {"source": ["stack.test"]},
                "Targets": [
                    {
                        "Id": "machine",
                        "Arn": {"Ref": "Machine"},
                        "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": ["DeadLetters", "Arn"]}},
                        "RetryPolicy": {"MaximumRetryAttempts": "3"},
                    }
                ],
            },
        },
        "Schedule": {
            "Type": "AWS::Scheduler::Schedule",
            "Properties": {
                "ScheduleExpression": "rate(30 days)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {
                    "Arn": {"Fn::GetAtt": ["Function", "Arn"]},
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                },
            },
        },
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "operators"}},
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "Namespace": "N",
                "MetricName": "M",
                "Statistic": "Maximum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 1,
                "ComparisonOperator": "GreaterThanThreshold",
                "AlarmActions": [{"Ref": "Topic"}],
            },
        },
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {}},
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 30}},
        "Metadata": {"Type": "AWS::CDK::Metadata", "Properties": {}},
    }


def test_a_control_plane_is_created_works_and_is_deleted_without_a_rest(aws: Control) -> None:
    resources = control_plane(aws)
    exported = {
        "Machine": {"Value": {"Ref": "Machine"}},
        "Name": {"Value": {"Fn::GetAtt": ["Balancer", "DNSName"]}},
    }
    name = create(aws, resources, Outputs=exported)
    stack = settled(aws, name)
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack.get("StackStatusReason")
    machine = outputs(stack)["Machine"]
    assert aws.ended(aws.start(machine, {"a": 1}))["output"] == {"got": {"a": 1}}
    made = aws.cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
    assert {item["LogicalResourceId"] for item in made} == set(resources)
    physical = {item["LogicalResourceId"]: item["PhysicalResourceId"] for item in made}
    balancers = aws.elbv2.describe_load_balancers(LoadBalancerArns=[physical["Balancer"]])["LoadBalancers"]
    assert [balancer["Type"] for balancer in balancers] == ["network"]
    assert aws.ssm.describe_document(Name=physical["Document"])["Document"]["SchemaVersion"] == "2.2"
    assert aws.ssm.get_parameter(Name=physical["Parameter"])["Parameter"]["Value"] == physical["TargetGroup"]

    aws.events.put_events(Entries=[{"Source": "stack.test", "DetailType": "T", "Detail": "{}"}])
    eventually(lambda: len(aws.stepfunctions.list_executions(stateMachineArn=machine)["executions"]) == 2)

    assert delete(aws, name)["StackStatus"] == "DELETE_COMPLETE"
    assert physical["Table"] not in aws.dynamodb.list_tables()["TableNames"]
    assert physical["Function"] not in [f["FunctionName"] for f in aws.lambda_.list_functions()["Functions"]]
    assert physical["Role"] not in [role["RoleName"] for role in aws.iam.list_roles()["Roles"]]
    assert machine not in [
        m["stateMachineArn"] for m in aws.stepfunctions.list_state_machines()["stateMachines"]
    ]
    assert not aws.events.list_rules(NamePrefix=physical["Rule"])["Rules"]


def test_a_type_that_is_not_there_is_refused_before_anything_is_created(aws: Control) -> None:
    before = len(aws.sqs.list_queues().get("QueueUrls", []))
    with pytest.raises(ClientError, match=r"Unrecognized resource types: \[AWS::RDS::DBCluster\]"):
        create(aws, {"Queue": queue(), "Database": {"Type": "AWS::RDS::DBCluster"}})
    assert len(aws.sqs.list_queues().get("QueueUrls", [])) == before


def test_a_property_that_is_not_supported_fails_loudly(aws: Control) -> None:
    alarm = control_plane(aws)["Alarm"]
    alarm["Properties"] |= {"AlarmActions": [], "Sparkle": True}
    stack = settled(aws, create(aws, {"Alarm": alarm}))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert (
        "Alarm (AWS::CloudWatch::Alarm): Alarm: property Sparkle is not supported"
        in stack["StackStatusReason"]
    )


def test_a_failed_creation_rolls_back_and_names_the_resource(aws: Control) -> None:
    queue_name = unique("queue")
    function = control_plane(aws)["Function"]["Properties"] | {
        "Role": "arn:aws:iam::123456789012:role/nobody"
    }
    function["Environment"] = {}
    resources = {
        "Queue": queue(QueueName=queue_name),
        "Function": {"Type": "AWS::Lambda::Function", "DependsOn": "Queue", "Properties": function},
    }
    name = create(aws, resources)
    stack = settled(aws, name)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert stack["StackStatusReason"].startswith("Function (AWS::Lambda::Function): ")
    assert "cannot be assumed" in stack["StackStatusReason"]
    assert ("Function", "CREATE_FAILED") in events(aws, name)
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
    first = control_plane(aws)
    role = first["Role"]

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


def test_a_retained_resource_survives_its_stack(aws: Control) -> None:
    name = create(aws, {"Kept": {**parameter("x"), "DeletionPolicy": "Retain"}})
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


def test_what_is_retained_except_on_creation_survives_its_stack(aws: Control) -> None:
    name = create(aws, {"Kept": {**parameter("x"), "DeletionPolicy": "RetainExceptOnCreate"}})
    settled(aws, name)
    physical = listed(aws, name)[0]["PhysicalResourceId"]
    assert delete(aws, name)["StackStatus"] == "DELETE_COMPLETE"
    assert aws.ssm.get_parameter(Name=physical)["Parameter"]["Value"] == "x"


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


def test_one_stack_imports_what_another_exports(aws: Control) -> None:
    export = unique("export")
    settled(
        aws,
        create(aws, {"P": parameter("x")}, Outputs={"O": {"Value": "shared", "Export": {"Name": export}}}),
    )
    name = create(
        aws, {"P": parameter("x") | {"Properties": {"Type": "String", "Value": {"Fn::ImportValue": export}}}}
    )
    settled(aws, name)
    physical = listed(aws, name)[0]["PhysicalResourceId"]
    assert aws.ssm.get_parameter(Name=physical)["Parameter"]["Value"] == "shared"
    stack = settled(
        aws,
        create(
            aws, {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Value": {"Fn::ImportValue": "no"}}}}
        ),
    )
    assert "No export named no found" in stack["StackStatusReason"]


def test_parameters_and_conditions_choose_what_is_created(aws: Control) -> None:
    name = unique("stack")
    template = {
        "Parameters": {"Stage": {"Type": "String"}, "Value": {"Type": "String", "Default": "d"}},
        "Conditions": {"IsProd": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]}},
        "Resources": {"Always": parameter("x"), "Prod": {**parameter("x"), "Condition": "IsProd"}},
    }
    with pytest.raises(ClientError, match=r"\[Stage\] must have values"):
        aws.cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))
    chosen = [{"ParameterKey": "Stage", "ParameterValue": "dev"}]
    aws.cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), Parameters=chosen)
    settled(aws, name)
    assert [r["LogicalResourceId"] for r in listed(aws, name)] == ["Always"]
    with pytest.raises(ClientError, match="AlreadyExists"):
        aws.cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), Parameters=chosen)


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
        found = aws.cloudformation.describe_stack_resources(StackName=name)["StackResources"]
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
