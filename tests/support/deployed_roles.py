"""The roles of every function and workflow, with the statements that the templates give them, on a local cloud."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from environments.may_use import MayUse
from environments.schema import load_environment
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.endpoint_settings import Route53EndpointSettings
from stacks.naming import Names
from stacks.rights.boundary import boundary_document
from stacks.rights.role_statements import function_statements, policy_document, workflow_statements
from stacks.rights.statement import Statement
from statemachines.structure import placeholders
from tests.support.builders import BY_NAME
from tests.support.workflows import MACHINES


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def names_of_any_cluster(environment: str, zone_id: str, domain: str, host_package_object_arn: str) -> Names:
    """An environment with operators to which any cluster may be added, behind a load balancer or a name of the zone."""
    given = load_environment(environment)
    endpoint = {**BY_NAME, "hosted_zone_id": zone_id, "record_name": f"reads.{domain}"}
    by_name = {"name": "by-name", "read_endpoint": Route53EndpointSettings.model_validate(endpoint)}
    may_use = MayUse(
        image_patterns=("ami-*",),
        kms_key_patterns=(f"arn:aws:kms:{given.region}:{given.account}:key/*",),
        hosted_zones=(zone_id,),
        record_patterns=(f"*.{domain}",),
    )
    clusters = (*given.clusters, given.clusters[0].model_copy(update=by_name))
    changes = {"clusters": clusters, "may_use": may_use, "alarm_email": "dba-on-call@example.com"}
    return Names(given.model_copy(update=changes), host_package_object_arn)


def role_arn(names: Names, name: str) -> str:
    """The ARN of the role of a function or a workflow, by that one's name."""
    return f"arn:aws:iam::{names.environment.account}:role/{name}"


def of_workflow(names: Names, workflow: str, children: Sequence[str]) -> list[Statement]:
    """What a workflow's role holds: the functions that it names, and the workflows that it starts."""
    wanted = placeholders(MACHINES[workflow])
    functions = [names.function_arn(one.name) for one in FUNCTIONS if f"{one.pascal_name}Arn" in wanted]
    return workflow_statements(names, sorted(functions), children)


def make_roles(iam: Any, names: Names, workflows: Mapping[str, Sequence[str]]) -> None:
    """All roles with their boundary; `workflows` are the state machines with the children that each starts."""
    iam.create_policy(PolicyName=names.boundary, PolicyDocument=json.dumps(boundary_document(names)))

    def make(name: str, service: str, granted: Sequence[Statement]) -> None:
        iam.create_role(
            RoleName=name, AssumeRolePolicyDocument=trust(service), PermissionsBoundary=names.boundary_arn
        )
        document = json.dumps(policy_document(granted))
        iam.put_role_policy(RoleName=name, PolicyName="deployed", PolicyDocument=document)

    for definition in FUNCTIONS:
        granted = function_statements(definition, names)
        make(names.function(definition.name), "lambda.amazonaws.com", granted)
    for workflow, children in workflows.items():
        granted = of_workflow(names, workflow, children)
        make(names.state_machine(workflow), "states.amazonaws.com", granted)
