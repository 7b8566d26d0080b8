"""The product's own assembly on the local cloud."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_rig.resources import open_cloud
from localcloud.deploy import deploy, destroy
from tests.support.assembly import assembly


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cdk synth` writes for the local environment, functions without their dependencies."""
    return assembly("local", tmp_path_factory.mktemp("product") / "cdk.out")


def test_the_product_is_deployed_and_destroyed_without_a_rest(product: Path, tmp_path: Path) -> None:
    with open_cloud(tmp_path) as aws:
        names = [stack.name for stack in deploy(product, aws.cloud.endpoint_url)]
        assert names == ["Peaker-local-State", "Peaker-local-ControlPlane", "Peaker-local-Observability"]
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

        destroy(product, aws.cloud.endpoint_url)
        assert not aws.cloudformation.describe_stacks()["Stacks"]
        assert not getattr(aws, "lambda").list_functions()["Functions"]
        assert not aws.stepfunctions.list_state_machines()["stateMachines"]
        assert not aws.iam.list_roles()["Roles"]


def names_of(machines: list[dict[str, str]]) -> list[str]:
    return [machine["name"] for machine in machines]
