"""The sets `deploy` and `host` against the calls that are really made: nothing is missing, nothing is left over.

What a deployment does as the person stands in the cloud assembly; what a host calls is read from its source.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from environments.schema import load_environment
from stacks.naming import Names
from stacks.people_statements import statements_for
from tests.infrastructure.conftest import Assembly
from tests.support.pages import RUNBOOKS, blocks

ROOT = Path(__file__).resolve().parents[2]
# Of AWS's managed policy AmazonSSMManagedInstanceCore: what the agent needs to be a managed node, to open its channels
# and to take Run Command's messages. Left out: patches, inventory, State Manager documents, parameters.
AGENT = {
    *(f"ssm:{name}" for name in ("UpdateInstanceInformation", "UpdateInstanceAssociationStatus")),
    "ssm:ListInstanceAssociations",
    *(f"ssmmessages:{verb}{which}Channel" for verb in ("Create", "Open") for which in ("Control", "Data")),
    *(f"ec2messages:{name}Message" for name in ("Acknowledge", "Delete", "Fail")),
    *(f"ec2messages:{name}" for name in ("GetEndpoint", "GetMessages", "SendReply")),
}  # fmt: skip
# Where IAM's name of a service is not the AWS command's, and of a call that is not its operation's.
IAM_PREFIXES = {"elbv2": "elasticloadbalancing", "resourcegroupstaggingapi": "tag", "stepfunctions": "states"}
IAM_ACTIONS = {"lambda:Invoke": "lambda:InvokeFunction"}
# Above what an operator may not type.
BY_AN_ADMINISTRATOR = "# an administrator of the account"
AWS_LIBRARIES = {"boto3", "botocore", "aiobotocore", "awscrt"}
AWS_IN_A_SCRIPT = re.compile(r"(?m)^\s*aws\s|\$\(aws\s|169\.254\.169\.254|\.amazonaws\.com")


def granted(who: str, environment: str) -> set[tuple[str, str]]:
    """Each action on each resource of a set."""
    statements = statements_for(who, Names(load_environment(environment)))
    return {(action, resource) for one in statements for action in one.actions for resource in one.resources}


def values_of(document: Any, name: str) -> Iterator[str]:
    """What stands under a name, however deep."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == name:
                yield str(value)
            else:
                yield from values_of(value, name)
    elif isinstance(document, list):
        for one in document:
            yield from values_of(one, name)


def calls_of_a_deployment(assembly: Assembly) -> set[tuple[str, str]]:
    """The roles of its stacks, their look-ups and its files, and the version of the bootstrap that it asks for."""
    environment = load_environment(assembly.environment)
    documents = [json.loads(path.read_text()) for path in assembly.directory.rglob("*.json")]
    artifacts = [one for one in documents if isinstance(one, dict) and {"artifacts", "files"} & one.keys()]
    roles = {arn for one in artifacts for arn in values_of(one, "assumeRoleArn")}
    roles |= {arn for one in artifacts for look in find(one, "lookupRole") for arn in values_of(look, "arn")}
    versions = {name for one in artifacts for name in values_of(one, "bootstrapStackVersionSsmParameter")}
    place = f"{environment.region}:{environment.account}"
    return {
        *(("sts:AssumeRole", arn.replace("${AWS::Partition}", environment.partition)) for arn in roles),
        *(
            ("ssm:GetParameter", f"arn:{environment.partition}:ssm:{place}:parameter{name}")
            for name in versions
        ),
    }


def find(document: Any, name: str) -> Iterator[Any]:
    if isinstance(document, dict):
        yield from ([document[name]] if name in document else [])
        for value in document.values():
            yield from find(value, name)


def test_whoever_deploys_may_do_exactly_what_the_cloud_assembly_asks_for(assembly: Assembly) -> None:
    calls = calls_of_a_deployment(assembly)
    assert {action for action, _ in calls} == {"sts:AssumeRole", "ssm:GetParameter"}
    assert granted("deploy", assembly.environment) == calls


def test_who_reads_changes_nothing_and_who_operates_just_this() -> None:
    looks = re.compile(r":(Describe|Get|List)|^dynamodb:Query$|^logs:FilterLogEvents$")
    reads, operates = (
        {action for action, _ in granted(who, "prod") if not looks.search(action)}
        for who in ("read", "operate")
    )
    assert reads == set()
    assert operates == {
        "cloudformation:UpdateTerminationProtection",
        *(f"cloudwatch:{verb}AlarmActions" for verb in ("Disable", "Enable")),
        "elasticloadbalancing:RegisterTargets",
        *("events:DisableRule", "events:EnableRule", "lambda:InvokeFunction"),
        *("sqs:PurgeQueue", "sqs:ReceiveMessage"),
        *("ssm:SendCommand", "states:StartExecution", "states:StopExecution"),
    }


def calls_of(block: str) -> Iterator[str]:
    """The actions that IAM is asked for when a block of a page is typed."""
    for service, operation in re.findall(r"\baws ([a-z0-9]+) ([a-z-]+)", block):
        action = f"{IAM_PREFIXES.get(service, service)}:{operation.title().replace('-', '')}"
        yield IAM_ACTIONS.get(action, action)


def test_an_operator_may_type_every_line_of_the_runbooks_but_those_of_an_administrator() -> None:
    may = {action for action, _ in granted("operate", "prod")} | {"sts:GetCallerIdentity", "ec2:Wait"}
    typed = {
        (page.stem, call)
        for page in RUNBOOKS
        for block in blocks(page)
        if BY_AN_ADMINISTRATOR not in block
        for call in calls_of(block)
    }
    assert {(page, call) for page, call in typed if call not in may} == set()


@pytest.mark.parametrize("environment", ["dev", "prod", "local"])
def test_a_host_may_do_exactly_what_its_agent_does(environment: str) -> None:
    assert {action for action, _ in granted("host", environment)} == AGENT


def test_nothing_else_on_a_host_calls_aws_with_the_hosts_credentials() -> None:
    for path in (ROOT / "host").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not AWS_LIBRARIES & {name.split(".")[0] for name in named}, path
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not AWS_IN_A_SCRIPT.search(node.value), path


def test_no_document_calls_aws_with_the_hosts_credentials() -> None:
    for path in (ROOT / "ssm_documents").glob("*.yaml"):
        assert not AWS_IN_A_SCRIPT.search(path.read_text(encoding="utf-8")), path
