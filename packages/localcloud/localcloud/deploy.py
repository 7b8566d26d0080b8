"""Deploy a CDK cloud assembly (`cdk synth` output) to the local cloud through S3 and CloudFormation.

    deploy(Path("cdk.out"), "http://127.0.0.1:4566")

publishes the file assets that the *.assets.json manifests name, then creates or updates the stacks, each after
those it depends on. `destroy` deletes them in reverse.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.open_cloud import LATEST_ANSWER_REAL_SECONDS

ACCOUNT_ID, REGION = "123456789012", "us-east-1"
STACK_ARTIFACT = "aws:cloudformation:stack"
POLL_SECONDS = 0.2
STACK_TIMEOUT_SECONDS = 300
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


class DeployFailed(Exception):
    """A stack or an asset could not be deployed: names the resource and the reason."""


@dataclass(frozen=True)
class StackArtifact:
    """One stack of an assembly."""

    id: str
    name: str
    template: Path
    template_asset: str | None
    assets: Path | None
    depends_on: tuple[str, ...]
    tags: Mapping[str, str]
    protected: bool


@dataclass(frozen=True)
class DeployedStack:
    """What a deployed stack answers: its outputs by key."""

    name: str
    outputs: Mapping[str, str]
    seconds: float


def deploy(
    cdk_out: Path, endpoint_url: str, *, progress: Callable[[str], None] = lambda line: None
) -> list[DeployedStack]:
    """Deploy every stack of the assembly. Raises DeployFailed, naming the resource that failed and why."""
    clients = _Clients(endpoint_url)
    stacks = _in_order(_stacks(cdk_out))
    if not stacks:
        raise DeployFailed(f"{cdk_out}: no stack in this assembly; run cdk synth first")
    for manifest in sorted({stack.assets for stack in stacks if stack.assets}):
        _publish_assets(manifest, clients, progress)
    return [_deploy_stack(stack, clients, _template_of(stack), progress) for stack in stacks]


def destroy(cdk_out: Path, endpoint_url: str, *, progress: Callable[[str], None] = lambda line: None) -> None:
    """Delete every stack of the assembly, last deployed first. Raises DeployFailed when one resists."""
    clients = _Clients(endpoint_url)
    for stack in reversed(_in_order(_stacks(cdk_out))):
        current = _describe(clients, stack.name)
        if current is None:
            continue
        progress(f"deleting stack {stack.name}")
        _delete(clients, current)


class _Clients:
    def __init__(self, endpoint_url: str) -> None:
        options: dict[str, Any] = {
            "endpoint_url": endpoint_url,
            "region_name": REGION,
            "aws_access_key_id": "local",
            "aws_secret_access_key": "local",
            "config": Config(retries={"total_max_attempts": 1}, read_timeout=LATEST_ANSWER_REAL_SECONDS),
        }
        self.cloudformation = boto3.client("cloudformation", **options)
        self.s3 = boto3.client("s3", **options)


def _stacks(folder: Path) -> Iterator[StackArtifact]:
    """Those of an assembly and of the stages nested in it. Raises DeployFailed when it is none."""
    if not (folder / "manifest.json").is_file():
        raise DeployFailed(f"{folder}: not a CDK assembly (no manifest.json); run cdk synth first")
    artifacts = json.loads((folder / "manifest.json").read_text())["artifacts"]
    for name, artifact in artifacts.items():
        properties = artifact.get("properties", {})
        if artifact["type"] == "cdk:cloud-assembly":
            yield from _stacks(folder / properties["directoryName"])
        elif artifact["type"] == STACK_ARTIFACT:
            depends = artifact.get("dependencies", [])
            manifests = [
                folder / artifacts[other]["properties"]["file"]
                for other in depends
                if artifacts.get(other, {}).get("type") == "cdk:asset-manifest"
            ]
            yield StackArtifact(
                id=name,
                name=properties.get("stackName", name),
                template=folder / properties["templateFile"],
                template_asset=properties.get("stackTemplateAssetObjectUrl"),
                assets=manifests[0] if manifests else None,
                depends_on=tuple(
                    other for other in depends if artifacts.get(other, {}).get("type") == STACK_ARTIFACT
                ),
                tags=properties.get("tags", {}),
                protected=bool(properties.get("terminationProtection")),
            )


def _in_order(stacks: Iterable[StackArtifact]) -> list[StackArtifact]:
    waiting, ordered = list(stacks), list[StackArtifact]()
    while waiting:
        done = {stack.id for stack in ordered}
        ready = [stack for stack in waiting if set(stack.depends_on) <= done]
        if not ready:
            raise DeployFailed(
                f"stacks depend on each other in a circle: {[stack.name for stack in waiting]}"
            )
        ordered += ready
        waiting = [stack for stack in waiting if stack not in ready]
    return ordered


def _publish_assets(manifest: Path, clients: _Clients, progress: Callable[[str], None]) -> None:
    for asset in json.loads(manifest.read_text()).get("files", {}).values():
        source = manifest.parent / asset["source"]["path"]
        for destination in asset["destinations"].values():
            bucket = _fill(destination["bucketName"])
            key = _fill(destination["objectKey"])
            _make_bucket(clients, bucket)
            if _exists(clients, bucket, key):
                continue
            progress(f"publishing {source.name} to s3://{bucket}/{key}")
            if not source.exists():
                raise DeployFailed(f"asset {source} is not there; run cdk synth again")
            body = _zipped(source) if asset["source"].get("packaging") == "zip" else source.read_bytes()
            clients.s3.put_object(Bucket=bucket, Key=key, Body=body)


def _fill(text: str) -> str:
    for name, value in (("AccountId", ACCOUNT_ID), ("Region", REGION), ("Partition", "aws")):
        text = text.replace(f"${{AWS::{name}}}", value)
    return text


def _make_bucket(clients: _Clients, bucket: str) -> None:
    try:
        clients.s3.head_bucket(Bucket=bucket)
    except ClientError:
        clients.s3.create_bucket(Bucket=bucket)


def _exists(clients: _Clients, bucket: str, key: str) -> bool:
    try:
        clients.s3.head_object(Bucket=bucket, Key=key)
    except ClientError:
        return False
    return True


def _zipped(folder: Path) -> bytes:
    """A folder as a ZIP file whose bytes depend on its content only. A ZIP file is taken as it is."""
    if folder.is_file():
        return folder.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), ZIP_EPOCH)
                entry.external_attr = (path.stat().st_mode & 0o777) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def _template_of(stack: StackArtifact) -> dict[str, str]:
    """As the CDK sends it: by its address in S3, where the assembly publishes it; else in the request."""
    if stack.template_asset is None:
        return {"TemplateBody": stack.template.read_text()}
    bucket, key = _fill(stack.template_asset).removeprefix("s3://").split("/", 1)
    return {"TemplateURL": f"https://{bucket}.s3.{REGION}.amazonaws.com/{key}"}


def _deploy_stack(
    stack: StackArtifact, clients: _Clients, template: dict[str, str], progress: Callable[[str], None]
) -> DeployedStack:
    started = time.monotonic()
    arguments: dict[str, Any] = {
        "StackName": stack.name,
        **template,
        "Capabilities": ["CAPABILITY_NAMED_IAM"],
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
    }
    current = _describe(clients, stack.name)
    if current is not None and current["StackStatus"] in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"):
        progress(f"deleting stack {stack.name}, which was never created")
        _delete(clients, current)
        current = None
    progress(f"{'creating' if current is None else 'updating'} stack {stack.name}")
    try:
        if current is None:
            stack_id = clients.cloudformation.create_stack(**arguments)["StackId"]
        else:
            stack_id = clients.cloudformation.update_stack(**arguments)["StackId"]
    except ClientError as error:
        message = error.response["Error"]["Message"]
        if current is None or "No updates are to be performed" not in message:
            raise DeployFailed(f"stack {stack.name}: {message}") from error
        stack_id = current["StackId"]
    status = _wait(clients, stack_id)
    if status["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        raise DeployFailed(_explain(clients, stack_id, status))
    if status.get("EnableTerminationProtection", False) != stack.protected:
        clients.cloudformation.update_termination_protection(
            StackName=stack.name, EnableTerminationProtection=stack.protected
        )
    outputs = {output["OutputKey"]: output["OutputValue"] for output in status.get("Outputs", [])}
    return DeployedStack(stack.name, outputs, time.monotonic() - started)


def _delete(clients: _Clients, stack: Mapping[str, Any]) -> None:
    try:
        clients.cloudformation.delete_stack(StackName=stack["StackId"])
    except ClientError as error:
        raise DeployFailed(f"stack {stack['StackName']}: {error.response['Error']['Message']}") from error
    gone = _wait(clients, stack["StackId"])
    if gone["StackStatus"] != "DELETE_COMPLETE":
        raise DeployFailed(_explain(clients, stack["StackId"], gone))


def _describe(clients: _Clients, name: str) -> dict[str, Any] | None:
    try:
        found = clients.cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise
    return dict(found[0])


def _wait(clients: _Clients, stack_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + STACK_TIMEOUT_SECONDS
    while True:
        stack = _describe(clients, stack_id)
        if stack is None:
            raise DeployFailed(f"stack {stack_id} disappeared")
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            return stack
        if time.monotonic() > deadline:
            raise DeployFailed(f"stack {stack['StackName']} is still {stack['StackStatus']}")
        time.sleep(POLL_SECONDS)


def _explain(clients: _Clients, stack_id: str, stack: dict[str, Any]) -> str:
    events = clients.cloudformation.describe_stack_events(StackName=stack_id)["StackEvents"]
    failures = [
        f"  {event['LogicalResourceId']} ({event['ResourceType']}): {event.get('ResourceStatusReason', '')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
        and event["ResourceType"] != "AWS::CloudFormation::Stack"
    ]
    reason = [f"  {stack['StackStatusReason']}"] if stack.get("StackStatusReason") and not failures else []
    return "\n".join([f"stack {stack['StackName']} ended {stack['StackStatus']}:", *failures, *reason])
