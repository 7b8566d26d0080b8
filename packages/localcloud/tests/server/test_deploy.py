"""Deploying a CDK assembly: assets, order, update, failures by name, deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud_rig.control import Control, control, unique
from localcloud.deploy import DeployFailed, deploy, destroy


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        yield opened


BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


class Assembly:
    """A cloud assembly as `cdk synth` writes one: a stage with two stacks, the second needs the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first, self.second = unique("First"), unique("Second")
        self.code = folder / "asset.code"
        self.code.mkdir(parents=True)
        (self.code / "app.py").write_text("def handler(event, context): return 1")
        self.parameter = f"/{self.first}"
        self.write("1")

    def write(self, value: str, **second: Any) -> None:
        nested = self.folder / "assembly-Stage"
        role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}}
        function = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": BUCKET_NAME, "S3Key": "code.zip"},
                "Handler": "app.handler",
                "Runtime": "python3.13",
                "Timeout": 300,
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        }
        first = {
            "Resources": {"Role": role, "Function": function},
            "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Function", "Arn"]}}},
        }
        properties = {"Name": self.parameter, "Type": "String", "Value": value, **second}
        parameter = {"Type": "AWS::SSM::Parameter", "Properties": properties}
        write(nested / "first.template.json", first)
        write(nested / "second.template.json", {"Resources": {"Parameter": parameter}})
        destination = {"current": {"bucketName": BUCKET, "objectKey": "code.zip"}}
        asset = {"source": {"path": "../asset.code", "packaging": "zip"}, "destinations": destination}
        write(nested / "first.assets.json", {"files": {"code": asset}})
        manifest = {"type": "cdk:asset-manifest", "properties": {"file": "first.assets.json"}}
        artifacts = {
            "second": stack(self.second, "second.template.json", ["first"]),
            "first": stack(self.first, "first.template.json", ["first.assets"]),
            "first.assets": manifest,
        }
        write(nested / "manifest.json", {"artifacts": artifacts})
        stage = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-Stage"}}
        write(self.folder / "manifest.json", {"artifacts": {"stage": stage, "Tree": {"type": "cdk:tree"}}})


BUCKET_NAME = "cdk-hnb659fds-assets-123456789012-us-east-1"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


def stack(name: str, template: str, dependencies: list[str]) -> dict[str, Any]:
    return {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": template, "stackName": name, "tags": {"stage": "test"}},
        "dependencies": dependencies,
    }


def test_an_assembly_is_deployed_updated_and_destroyed(aws: Control, tmp_path: Path) -> None:
    assembly = Assembly(tmp_path)
    lines: list[str] = []
    deployed = deploy(tmp_path, aws.cloud.endpoint_url, progress=lines.append)
    assert [item.name for item in deployed] == [assembly.first, assembly.second]
    assert aws.invoke(deployed[0].outputs["Arn"]) == (None, 1)
    assert aws.ssm.get_parameter(Name=assembly.parameter)["Parameter"]["Value"] == "1"
    assert any("publishing asset.code" in line for line in lines)

    assembly.write("2")
    deploy(tmp_path, aws.cloud.endpoint_url)
    assert aws.ssm.get_parameter(Name=assembly.parameter)["Parameter"]["Value"] == "2"
    deploy(tmp_path, aws.cloud.endpoint_url)  # nothing to do is no failure

    destroy(tmp_path, aws.cloud.endpoint_url)
    names = {item["StackName"] for item in aws.cloudformation.describe_stacks()["Stacks"]}
    assert not names & {assembly.first, assembly.second}
    destroy(tmp_path, aws.cloud.endpoint_url)  # neither is nothing to delete


def test_a_failure_names_stack_resource_and_reason(aws: Control, tmp_path: Path) -> None:
    assembly = Assembly(tmp_path)
    assembly.write("1", Sparkle=True)
    with pytest.raises(DeployFailed) as caught:
        deploy(tmp_path, aws.cloud.endpoint_url)
    message = str(caught.value)
    assert f"stack {assembly.second} ended ROLLBACK_COMPLETE" in message
    assert "Parameter (AWS::SSM::Parameter): " in message
    assert "property Sparkle is not supported" in message
    destroy(tmp_path, aws.cloud.endpoint_url)


def test_a_folder_that_is_no_assembly_says_what_to_do(aws: Control, tmp_path: Path) -> None:
    with pytest.raises(DeployFailed, match="run cdk synth first"):
        deploy(tmp_path, aws.cloud.endpoint_url)


def test_an_asset_that_is_gone_is_named(aws: Control, tmp_path: Path) -> None:
    assembly = Assembly(tmp_path)
    (assembly.code / "app.py").unlink()
    assembly.code.rmdir()
    if has_bucket(aws):
        aws.s3.delete_object(Bucket=BUCKET_NAME, Key="code.zip")
    with pytest.raises(DeployFailed, match=r"asset .*asset\.code is not there"):
        deploy(tmp_path, aws.cloud.endpoint_url)


def has_bucket(aws: Control) -> bool:
    return BUCKET_NAME in [bucket["Name"] for bucket in aws.s3.list_buckets()["Buckets"]]
