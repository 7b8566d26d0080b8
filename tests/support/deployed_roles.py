"""The roles of every function and workflow, with the statements that the templates give them, on a local cloud.

A test's cluster joins the environment as one more cluster of its file would: the policies name it from then on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from environments.schema import Cluster, Environment, load_environment
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.endpoint_settings import ReadEndpoint
from stacks.naming import Names
from stacks.rights.boundary import boundary_document
from stacks.rights.role_statements import function_statements, policy_document, workflow_statements
from stacks.rights.statement import Statement
from statemachines.structure import placeholders
from tests.support.workflows import MACHINES

POLICY = "deployed"
# What the stack adds to a cluster's settings when it has made the load balancer.
DEPLOYED_SETTINGS = ("target_group_arn", "warming_target_group_arn", "listener_arn")
NAMED_BY_POLICIES = (
    *("name", "image_id", "security_group_ids", "instance_profile", "subnets", "kms_key_arns"),
)


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@dataclass
class DeployedRoles:
    """Makes the roles of one environment, and rewrites their policies as clusters join."""

    iam: Any
    environment: Environment
    host_package_object_arn: str
    clusters: list[Cluster] = field(default_factory=list)
    _written: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, iam: Any, environment: str, host_package_object_arn: str) -> DeployedRoles:
        """As if the environment named an address of the operators, who are told of refusals by a limit."""
        told = load_environment(environment).model_copy(update={"alarm_email": "dba-on-call@example.com"})
        return cls(iam, told, host_package_object_arn)

    @property
    def names(self) -> Names:
        environment = self.environment.model_copy(update={"clusters": tuple(self.clusters)})
        return Names(environment, self.host_package_object_arn)

    def function_role(self, name: str) -> str:
        """The ARN of a function's role."""
        return self._role(self.names.function(name))

    def workflow_role(self, name: str) -> str:
        """The ARN of a workflow's role."""
        return self._role(self.names.state_machine(name))

    def _role(self, name: str) -> str:
        return f"arn:aws:iam::{self.environment.account}:role/{name}"

    def make(self, workflows: Mapping[str, Sequence[str]]) -> None:
        """All roles with their boundary; `workflows` are the state machines with the children that each starts."""
        self.iam.create_policy(PolicyName=self.names.boundary, PolicyDocument=self._boundary_text())
        for definition in FUNCTIONS:
            self._make_role(self.names.function(definition.name), "lambda.amazonaws.com")
        for workflow, children in workflows.items():
            name = self.names.state_machine(workflow)
            self._make_role(name, "states.amazonaws.com")
            self._write(name, self.of_workflow(workflow, children))

    def _make_role(self, name: str, service: str) -> None:
        self.iam.create_role(
            RoleName=name,
            AssumeRolePolicyDocument=trust(service),
            PermissionsBoundary=self.names.boundary_arn,
        )

    def _boundary_text(self) -> str:
        return json.dumps(boundary_document(self.names))

    def _write_boundary(self) -> None:
        arn, document = self.names.boundary_arn, self._boundary_text()
        if self._written.get(arn) == document:
            return
        versions = self.iam.list_policy_versions(PolicyArn=arn)["Versions"]
        self.iam.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
        # A managed policy keeps five versions.
        for version in versions:
            self.iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        self._written[arn] = document

    def of_workflow(self, workflow: str, children: Sequence[str]) -> list[Statement]:
        """What a workflow's role holds: the functions that it names, and the workflows that it starts."""
        wanted = placeholders(MACHINES[workflow])
        functions = [
            self.names.function_arn(one.name) for one in FUNCTIONS if f"{one.pascal_name}Arn" in wanted
        ]
        return workflow_statements(self.names, sorted(functions), children)

    def join(self, settings: Mapping[str, Any]) -> None:
        """Add a cluster by its deployed settings, or its settings anew; the policies of all functions follow."""
        endpoint = dict(settings["read_endpoint"])
        for key in DEPLOYED_SETTINGS:
            endpoint.pop(key, None)
        # Times that a test scales are beyond the schema's bounds; no policy speaks of them.
        named = {key: settings[key] for key in NAMED_BY_POLICIES if key in settings}
        read_endpoint = TypeAdapter(ReadEndpoint).validate_python(endpoint)
        cluster = self.environment.clusters[0].model_copy(update={**named, "read_endpoint": read_endpoint})
        self.clusters = [one for one in self.clusters if one.name != cluster.name] + [cluster]
        self.write_function_policies()

    def forget(self, names: Collection[str]) -> None:
        """The policies name these clusters no more from the next one on that joins, and stay short."""
        self.clusters = [one for one in self.clusters if one.name not in names]

    def write_function_policies(self) -> None:
        names = self.names
        self._write_boundary()
        for definition in FUNCTIONS:
            self._write(names.function(definition.name), function_statements(definition, names))

    def _write(self, role: str, granted: Sequence[Any]) -> None:
        document = json.dumps(policy_document(granted))
        if self._written.get(role) != document:
            self.iam.put_role_policy(RoleName=role, PolicyName=POLICY, PolicyDocument=document)
            self._written[role] = document
