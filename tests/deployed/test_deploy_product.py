"""The product's own assembly on the local cloud."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_rig.resources import ResourceCloud, open_cloud
from localcloud.deploy import DeployFailed, deploy, destroy
from tests.support.assembly import assembly
from tests.support.deployed_product import Said, peaker


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cdk synth` writes for the local environment, functions without their dependencies."""
    return assembly("local", tmp_path_factory.mktemp("product") / "cdk.out")


def test_the_product_is_deployed_and_destroyed_without_a_rest(product: Path, tmp_path: Path) -> None:
    with open_cloud(tmp_path) as aws:
        names = [stack.name for stack in deploy(product, aws.cloud.endpoint_url)]
        shared = ["Peaker-local-State", "Peaker-local-ControlPlane", "Peaker-local-Observability"]
        assert names == [*shared, "Peaker-local-orders"]
        machines = aws.stepfunctions.list_state_machines()["stateMachines"]
        for machine in machines:
            definition = aws.stepfunctions.describe_state_machine(stateMachineArn=machine["stateMachineArn"])[
                "definition"
            ]
            assert "${" not in definition, machine["name"]
        assert {"scale_out", "scale_in", "prewarm"} <= {
            name.rsplit("-", 1)[-1] for name in names_of(machines)
        }
        settings = json.loads(
            aws.ssm.get_parameter(Name="/peaker/local/clusters/orders")["Parameter"]["Value"]
        )
        group = settings["read_endpoint"]["target_group_arn"]
        assert (
            aws.elbv2.describe_target_groups(TargetGroupArns=[group])["TargetGroups"][0]["Protocol"] == "TCP"
        )

        _a_cluster_whose_replica_serves_is_not_removed(aws, product)
        _pause(aws)
        allowed = allow_removal(aws)
        assert allowed.status == 0, allowed.err
        assert "cdk destroy -c env=local --exclusively 'Peaker-local/orders'" in allowed.out
        assert allow_removal(aws).status == 0

        _the_files_of_the_last_runs_keep_their_bucket(aws, product)
        destroy(product, aws.cloud.endpoint_url)
        assert not aws.cloudformation.describe_stacks()["Stacks"]
        assert not getattr(aws, "lambda").list_functions()["Functions"]
        assert not aws.stepfunctions.list_state_machines()["stateMachines"]
        assert not aws.iam.list_roles()["Roles"]
        again = allow_removal(aws)
        assert (again.status, "no stack Peaker-local-orders" in again.err) == (1, True)


def _a_cluster_whose_replica_serves_is_not_removed(aws: ResourceCloud, product: Path) -> None:
    """CloudFormation refuses before anything is gone, and `peaker allow-removal` says what is left."""
    replica = {
        "pk": "cluster#orders",
        "sk": "replica#i-0123456789abcdef0",
        "cluster": "orders",
        "instance_id": "i-0123456789abcdef0",
        "run_id": "scale-out-orders-1",
        "state": "in_service",
        "changed_at": "2026-11-21T10:00:00+00:00",
    }
    row = {"TableName": "peaker-local-ledger"}
    aws.dynamodb.put_item(**row, Item={name: {"S": value} for name, value in replica.items()})
    before = stack_of_orders(aws)
    refused = allow_removal(aws)
    assert refused.status == 1
    assert "in service: i-0123456789abcdef0" in refused.err
    assert "peaker-local-orders-replica-shortage" in refused.err
    with pytest.raises(DeployFailed, match=r"Peaker-local-orders.* while TerminationProtection is enabled"):
        destroy(product, aws.cloud.endpoint_url)
    assert stack_of_orders(aws) == before
    aws.dynamodb.delete_item(**row, Key={name: {"S": replica[name]} for name in ("pk", "sk")})


def _the_files_of_the_last_runs_keep_their_bucket(aws: ResourceCloud, product: Path) -> None:
    """S3 deletes no bucket that holds files, so the removal ends there until they are gone (docs/operating.md)."""
    [bucket] = [
        one["Name"] for one in aws.s3.list_buckets()["Buckets"] if one["Name"].startswith("peaker-local-run-")
    ]
    left = {"Bucket": bucket, "Key": "runs/scale-out-orders-1/hot.json"}
    aws.s3.put_object(**left, Body=b"{}")
    with pytest.raises(DeployFailed, match="BucketNotEmpty"):
        destroy(product, aws.cloud.endpoint_url)
    aws.s3.delete_object(**left)


def _pause(aws: ResourceCloud) -> None:
    """As docs/runbooks/stop-everything.md has it."""
    for rule in ("replica-shortage", "replica-surplus", "scheduled-check"):
        aws.events.disable_rule(Name=f"peaker-local-orders-{rule}")


def allow_removal(aws: ResourceCloud) -> Said:
    return peaker("allow-removal", "orders", "--env", "local", "--endpoint", aws.cloud.endpoint_url)


def stack_of_orders(aws: ResourceCloud) -> tuple[str, set[str]]:
    """Its state, and what it holds."""
    [stack] = aws.cloudformation.describe_stacks(StackName="Peaker-local-orders")["Stacks"]
    found = aws.cloudformation.list_stack_resources(StackName="Peaker-local-orders")
    return stack["StackStatus"], {one["PhysicalResourceId"] for one in found["StackResourceSummaries"]}


def names_of(machines: list[dict[str, str]]) -> list[str]:
    return [machine["name"] for machine in machines]
