"""Who tries: every role that the environment's stacks made, and the sets of people and hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.permissions import Permission
from peaker_contract.steps import FunctionDefinition
from stacks.naming import Names
from stacks.people_statements import SETS, statements_for
from stacks.rights.role_statements import policy_document

# Of a person or a host: in a test's account some service may act as the role.
ACTS = "ec2.amazonaws.com"
SENT_BY_PEOPLE = {"operate": ("install_host_package", "prepare_base")}


@dataclass(frozen=True)
class Role:
    """`job` is the function's, the workflow's or the set's short name; a rule's role has its logical name."""

    kind: str
    job: str
    arn: str
    service: str
    definition: FunctionDefinition | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.job}"

    @property
    def name(self) -> str:
        return self.arn.rsplit("/", 1)[-1]

    @property
    def documents(self) -> tuple[str, ...]:
        """The SSM documents that it is its job to send."""
        return self.definition.sent_documents if self.definition else SENT_BY_PEOPLE.get(self.job, ())

    def holds(self, *permissions: Permission) -> bool:
        return self.definition is not None and bool(set(permissions) & set(self.definition.permissions))

    def is_set(self, *names: str) -> bool:
        return self.kind == "people" and self.job in names


def deployed_roles(cloud: Any, names: Names) -> list[Role]:
    """All roles of the account that the stacks made, whatever they are for."""
    functions = {_role_of_function(cloud, names, one): one for one in FUNCTIONS}
    machines = cloud.client("stepfunctions").list_state_machines()["stateMachines"]
    workflows = {
        cloud.client("stepfunctions").describe_state_machine(stateMachineArn=one["stateMachineArn"])[
            "roleArn"
        ]: one["name"].removeprefix(f"{names.prefix}-")
        for one in machines
    }
    return [_role(one, functions, workflows) for one in _listed(cloud) if _trusted(one)]


def make_people(cloud: Any, names: Names) -> list[Role]:
    """A role that holds exactly the statements of each set."""
    made = []
    for who in SETS:
        name = f"people-{who}"
        made_role = cloud.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=_trust(ACTS))
        arn = made_role["Role"]["Arn"]
        document = json.dumps(policy_document(statements_for(who, names)))
        cloud.client("iam").put_role_policy(RoleName=name, PolicyName="set", PolicyDocument=document)
        made.append(Role("people", who, arn, ACTS))
    return made


def make_bounded(cloud: Any, names: Names) -> Role:
    """A role that may do everything within the boundary of the environment's roles."""
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    name = "everything-bounded"
    arn = cloud.client("iam").create_role(
        RoleName=name,
        AssumeRolePolicyDocument=_trust(ACTS),
        PermissionsBoundary=names.boundary_arn,
    )["Role"]["Arn"]
    cloud.client("iam").put_role_policy(
        RoleName=name, PolicyName="own", PolicyDocument=json.dumps(everything)
    )
    return Role("bounded", name, arn, ACTS)


def take_boundary_off(cloud: Any, role: Role) -> bool:
    """Whether it had one; its own policies decide alone from now on."""
    found = cloud.client("iam").get_role(RoleName=role.name)["Role"]
    if "PermissionsBoundary" not in found:
        return False
    cloud.client("iam").delete_role_permissions_boundary(RoleName=role.name)
    return True


def _trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def tried(call: Any) -> str:
    """`refused` where a policy decided so; else what came of it, which is a defect of a policy or of the test."""
    try:
        call()
    except ClientError as error:
        said = error.response["Error"].get("Message", "")
        decided = (
            "because no identity-based policy allows",
            "because no permissions boundary allows",
            "because no resource-based policy allows",
            "with an explicit deny in",
        )
        if "not authorized to perform" in said and any(one in said for one in decided):
            return "refused"
        return f"{error.response['Error']['Code']}: {said}"
    return "done"


def _role_of_function(cloud: Any, names: Names, definition: FunctionDefinition) -> str:
    found = cloud.client("lambda").get_function_configuration(FunctionName=names.function(definition.name))
    return str(found["Role"])


def _listed(cloud: Any) -> Iterator[dict[str, Any]]:
    for page in cloud.client("iam").get_paginator("list_roles").paginate():
        yield from page["Roles"]


def _trusted(role: dict[str, Any]) -> str:
    """The service that acts as it; "" for a role that no service may act as."""
    document = role["AssumeRolePolicyDocument"]
    parsed = document if isinstance(document, dict) else json.loads(document)
    for statement in parsed.get("Statement", []):
        service = statement["Principal"].get("Service")
        if service:
            return str(service[0] if isinstance(service, list) else service)
    return ""


def _role(found: dict[str, Any], functions: dict[str, FunctionDefinition], workflows: dict[str, str]) -> Role:
    arn, service = str(found["Arn"]), _trusted(found)
    if arn in functions:
        return Role("function", functions[arn].name, arn, service, functions[arn])
    if arn in workflows:
        return Role("workflow", workflows[arn], arn, service)
    return Role("other", str(found["RoleName"]), arn, service)
