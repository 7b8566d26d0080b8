"""CloudFormation's API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.extensions.cloudformation.stack_records import Stack, StackResource
from localcloud.extensions.cloudformation.stacks import Stacks, validation_error

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


# CloudFormation's quotas for a template: in the request, and in S3.
LONGEST_INLINE_TEMPLATE_BYTES = 51_200
LONGEST_TEMPLATE_BYTES = 1_048_576
ACTIONS = (
    "create_stack",
    "update_stack",
    "delete_stack",
    "update_termination_protection",
    "describe_stacks",
    "describe_stack_events",
    "list_stack_resources",
)
# Moto's other actions work on moto's own stacks, which do not exist here.
REFUSED = (
    *("create_change_set", "execute_change_set", "describe_change_set", "create_stack_set"),
    *("describe_stack_resource", "describe_stack_resources", "list_stacks", "list_exports", "get_template"),
)


def install(cloud: OpenCloud) -> None:
    """Answer CloudFormation's API with these stacks."""
    from moto.cloudformation.responses import CloudFormationResponse
    from moto.core.responses import ActionResult, EmptyResult

    stacks = Stacks(cloud)

    def body_of(self: Any) -> str:
        url = self._get_param("TemplateURL")
        body = str(self._get_stack_from_s3_url(url) if url else self._get_param("TemplateBody") or "")
        parameter, limit = (
            ("templateURL", LONGEST_TEMPLATE_BYTES)
            if url
            else ("templateBody", LONGEST_INLINE_TEMPLATE_BYTES)
        )
        if len(body.encode()) > limit:
            raise validation_error(
                f"1 validation error detected: Value at '{parameter}' failed to satisfy constraint: "
                f"Member must have length less than or equal to {limit}"
            )
        return body

    def arguments(self: Any) -> tuple[str, str, list[dict[str, str]]]:
        return self._get_param("StackName"), body_of(self), self._get_param("Tags", []) or []

    def create_stack(self: Any) -> Any:
        protected = self._get_bool_param("EnableTerminationProtection", False)
        return ActionResult({"StackId": stacks.create(*arguments(self), protected).id})

    def update_stack(self: Any) -> Any:
        return ActionResult({"StackId": stacks.update(*arguments(self)).id})

    def delete_stack(self: Any) -> Any:
        stacks.delete(self._get_param("StackName"))
        return EmptyResult()

    def update_termination_protection(self: Any) -> Any:
        protected = self._get_bool_param("EnableTerminationProtection", False)
        return ActionResult({"StackId": stacks.protect(self._get_param("StackName"), protected).id})

    def describe_stacks(self: Any) -> Any:
        name = self._get_param("StackName")
        chosen = [stacks.get(name)] if name else [stack for stack in stacks.all() if not stack.deleted]
        return ActionResult({"Stacks": [_stack(stack) for stack in chosen]})

    def describe_stack_events(self: Any) -> Any:
        return ActionResult({"StackEvents": stacks.get(self._get_param("StackName")).events[::-1]})

    def list_stack_resources(self: Any) -> Any:
        resources = stacks.get(self._get_param("StackName")).resources.values()
        return ActionResult({"StackResourceSummaries": [_resource(entry) for entry in resources]})

    made_here = locals()
    for action in ACTIONS:
        cloud.add_action(CloudFormationResponse, action, made_here[action])
    for action in REFUSED:
        cloud.add_action(CloudFormationResponse, action, _refuse)


def _refuse(self: Any) -> Any:
    raise validation_error(
        f"The local cloud has no {self._get_action()}, no change sets and no stack sets: use CreateStack, UpdateStack."
    )


def _stack(stack: Stack) -> dict[str, Any]:
    description: dict[str, Any] = {
        "StackId": stack.id,
        "StackName": stack.name,
        "CreationTime": stack.created,
        "StackStatus": stack.status,
        "Outputs": stack.outputs,
        "Tags": {tag["Key"]: tag["Value"] for tag in stack.tags},  # moto turns it into the API's list
        "Description": stack.template.get("Description", ""),
        "DisableRollback": False,
        "EnableTerminationProtection": stack.protected,
    }
    optional = {
        "StackStatusReason": stack.reason or None,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
    }
    return {**description, **{key: value for key, value in optional.items() if value is not None}}


def _resource(entry: StackResource) -> dict[str, Any]:
    return {
        "LogicalResourceId": entry.logical_id,
        "PhysicalResourceId": entry.made.physical_id if entry.made else "",
        "ResourceType": entry.type,
        "ResourceStatus": entry.status,
        "ResourceStatusReason": entry.reason,
        "LastUpdatedTimestamp": entry.at,
    }
