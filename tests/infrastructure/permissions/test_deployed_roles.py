"""The roles under which the workflow tests run hold what the template's roles hold, statement by statement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from environments.schema import load_environment
from peaker_contract.catalogue import FUNCTIONS
from stacks.naming import Names
from stacks.rights.boundary import boundary_document
from stacks.rights.role_statements import function_statements, policy_document
from tests.infrastructure.conftest import Assembly
from tests.support.deployed_roles import of_workflow
from tests.support.workflow_cloud import WORKFLOWS

# What only the template knows: physical names that CloudFormation makes.
TOKEN = "<made by CloudFormation>"
ASSETS = "arn:aws:s3:::cdk-"
Allowed = set[tuple[str, str, str]]


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def shown(resource: Any) -> str:
    """The host package's object has its content's hash as its name."""
    return resource if isinstance(resource, str) and not resource.startswith(ASSETS) else TOKEN


def allowed(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each action on each resource under its conditions; however the CDK groups them."""
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        conditions = json.dumps(statement.get("Condition", {}), sort_keys=True)
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                yield action, shown(resource), conditions


def of_template(local: Assembly, kind: str, name_of: str) -> dict[str, Allowed]:
    """By the physical name of the function or the workflow: what the policies of its role allow."""
    [template] = [one for one in local.templates.values() if "AWS::Lambda::Function" in json.dumps(one)]
    resources = template["Resources"]
    by_role: dict[str, Allowed] = {}
    for one in resources.values():
        if one["Type"] == "AWS::IAM::Policy":
            for role in one["Properties"]["Roles"]:
                found = by_role.setdefault(role["Ref"], set())
                found |= set(allowed(one["Properties"]["PolicyDocument"]))
    role_field = "Role" if kind == "AWS::Lambda::Function" else "RoleArn"
    return {
        one["Properties"][name_of]: by_role[one["Properties"][role_field]["Fn::GetAtt"][0]]
        for one in resources.values()
        if one["Type"] == kind
    }


NAMES = Names(load_environment("local"), TOKEN)


def test_functions_run_under_the_templates_statements(local: Assembly) -> None:
    expected = of_template(local, "AWS::Lambda::Function", "FunctionName")
    found = {
        NAMES.function(one.name): set(allowed(policy_document(function_statements(one, NAMES))))
        for one in FUNCTIONS
    }
    assert found == expected


def test_workflows_run_under_the_templates_statements(local: Assembly) -> None:
    expected = of_template(local, "AWS::StepFunctions::StateMachine", "StateMachineName")
    found = {
        NAMES.state_machine(name): set(allowed(policy_document(of_workflow(NAMES, name, children))))
        for name, children in WORKFLOWS.items()
    }
    assert found == expected


def test_they_run_within_the_templates_boundary(local: Assembly) -> None:
    [(_, found)] = local.resources("AWS::IAM::ManagedPolicy")
    document = json.loads(json.dumps(boundary_document(NAMES)))
    assert without_package(found["Properties"]["PolicyDocument"]) == without_package(document)


def without_package(document: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    """Each action with what it is allowed or denied on; the host package's object is named by its content's hash."""
    return {
        (
            statement["Effect"],
            action,
            kind,
            frozenset(shown(one) for one in listed(statement[kind])),
            json.dumps(statement.get("Condition", {}), sort_keys=True).replace("[", "").replace("]", ""),
        )
        for statement in document["Statement"]
        for action in listed(statement["Action"])
        for kind in ("Resource", "NotResource")
        if kind in statement
    }
