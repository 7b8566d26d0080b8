"""CloudFormation stacks: created, updated, rolled back and deleted through the services' own APIs.

moto's engine skips types that it does not know and fails with status 500 on an error in one. This one refuses an
unknown type before anything is created, works in the background as AWS does, reports each resource's failure with
its reason in the stack's events, and rolls back.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from moto.utilities.utils import get_partition

from localcloud.extensions.cloudformation.resource_type import Made, Request
from localcloud.extensions.cloudformation.resources import RESOURCE_TYPES
from localcloud.extensions.cloudformation.stack_records import Stack, StackFailed, StackResource
from localcloud.extensions.cloudformation.template import Scope, TemplateError, creation_order, resolve
from localcloud.extensions.injected_failures import InjectedFailure

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

DELETE_PASSES = 3
# Deletion policies that keep a resource, and those that keep it also when the operation that made it is rolled back.
RETAINED = frozenset({"Retain", "RetainExceptOnCreate"})
RETAINED_AT_CREATION = frozenset({"Retain"})
# Such a stack can only be deleted.
CREATED_IN_VAIN = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})

# Parts of a template without which it would mean something else.
NOT_HERE = ("Parameters", "Conditions", "Mappings", "Transform")


class Stacks:
    """The stacks of one cloud."""

    def __init__(self, cloud: OpenCloud) -> None:
        self._cloud = cloud
        self._stacks: dict[str, Stack] = {}
        self._lock = threading.Lock()

    # -- requests ------------------------------------------------------------------------------------------

    def create(self, name: str, body: str, tags: list[dict[str, str]], protected: bool = False) -> Stack:
        template = parse_template(body)
        with self._lock:
            if any(stack.name == name and not stack.deleted for stack in self._stacks.values()):
                raise InjectedFailure("AlreadyExistsException", f"Stack [{name}] already exists")
            settings = self._cloud.settings
            place = f"{get_partition(settings.region)}:cloudformation:{settings.region}:{settings.account_id}"
            arn = f"arn:{place}:stack/{name}/{uuid.uuid4()}"
            stack = Stack(name, arn, template, tags, self._cloud.clock.now(), protected)
            self._stacks[arn] = stack
            self._set_status(stack, "CREATE_IN_PROGRESS", "User Initiated")
        self._work(stack, "CREATE", lambda: self._create(stack))
        return stack

    def update(self, name: str, body: str, tags: list[dict[str, str]]) -> Stack:
        stack = self.get(name)
        if not stack.status.endswith("_COMPLETE") or stack.status in CREATED_IN_VAIN:
            raise validation_error(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
        template = parse_template(body)
        if template == stack.template:
            raise validation_error("No updates are to be performed.")
        self._set_status(stack, "UPDATE_IN_PROGRESS", "User Initiated")
        self._work(stack, "UPDATE", lambda: self._update(stack, template))
        stack.tags = tags or stack.tags
        return stack

    def delete(self, name: str) -> None:
        stack = self._find(name)
        if stack is None or stack.deleted:
            return  # as AWS: deleting what is not there succeeds
        if stack.protected:
            raise validation_error(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        self._set_status(stack, "DELETE_IN_PROGRESS", "User Initiated")
        self._work(stack, "DELETE", lambda: self._delete(stack))

    def protect(self, name: str, protected: bool) -> Stack:
        """Raises ValidationError for a stack that is not there."""
        stack = self.get(name)
        stack.protected = protected
        return stack

    def get(self, name: str) -> Stack:
        """By name (the live one) or by id (also a deleted one). Raises ValidationError."""
        stack = self._find(name)
        if stack is None:
            raise validation_error(f"Stack with id {name} does not exist")
        return stack

    def _find(self, name: str) -> Stack | None:
        live = (stack for stack in self._stacks.values() if stack.name == name and not stack.deleted)
        return self._stacks.get(name) or next(live, None)

    def all(self) -> list[Stack]:
        return list(self._stacks.values())

    def _work(self, stack: Stack, verb: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # top boundary: whoever waits for the stack must hear of it
                self._set_status(stack, f"{verb}_FAILED", f"local cloud error: {error!r}")
                raise

        self._cloud.background(f"stack-{stack.name}", guarded)

    # -- work ----------------------------------------------------------------------------------------------

    def _create(self, stack: Stack) -> None:
        try:
            self._make_all(stack, stack.template)
            stack.outputs = self._outputs(stack)
            self._set_status(stack, "CREATE_COMPLETE")
        except (StackFailed, TemplateError) as error:
            self._set_status(stack, "ROLLBACK_IN_PROGRESS", str(error))
            left = self._delete_all(stack, list(stack.resources), RETAINED_AT_CREATION)
            self._set_status(stack, "ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE", str(error))

    def _update(self, stack: Stack, template: dict[str, Any]) -> None:
        before, stack.template = stack.template, template
        try:
            self._make_all(stack, template)
            gone = [name for name in stack.resources if name not in template["Resources"]]
            left = self._delete_all(stack, gone, RETAINED)
            stack.outputs = self._outputs(stack)
            stack.updated = self._cloud.clock.now()
            self._set_status(stack, "UPDATE_COMPLETE", f"left behind: {left}" if left else "")
        except (StackFailed, TemplateError) as error:
            self._set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", str(error))
            stack.template = before
            try:
                added = [name for name in stack.resources if name not in before["Resources"]]
                self._make_all(stack, before)
                self._delete_all(stack, added, RETAINED_AT_CREATION)
                self._set_status(stack, "UPDATE_ROLLBACK_COMPLETE", str(error))
            except (StackFailed, TemplateError) as second:
                self._set_status(stack, "UPDATE_ROLLBACK_FAILED", str(second))

    def _delete(self, stack: Stack) -> None:
        left = self._delete_all(stack, list(stack.resources), RETAINED)
        if left:
            self._set_status(stack, "DELETE_FAILED", f"The following resource(s) failed to delete: {left}.")
            return
        stack.deleted = self._cloud.clock.now()
        self._set_status(stack, "DELETE_COMPLETE")

    def _make_all(self, stack: Stack, template: dict[str, Any]) -> None:
        scope = self._scope(stack)
        for name in creation_order(template["Resources"]):
            self._make(stack, name, template["Resources"][name], scope)

    def _make(self, stack: Stack, name: str, resource: Mapping[str, Any], scope: Scope) -> None:
        known = stack.resources.get(name)
        properties = resolve(resource.get("Properties", {}), scope)
        if known is not None and known.made is not None and known.type == resource["Type"]:
            if known.properties == properties:
                known.template = resource  # its deletion policy may be another
                return
            self._change(stack, known, resource, properties)
            return
        entry = StackResource(name, resource["Type"], template=resource, properties=properties)
        stack.resources[name] = entry
        self._run(
            stack, entry, "CREATE", lambda request: RESOURCE_TYPES[entry.type].create(request), properties
        )

    def _change(
        self, stack: Stack, entry: StackResource, resource: Mapping[str, Any], properties: Mapping[str, Any]
    ) -> None:
        kind, made = RESOURCE_TYPES[entry.type], entry.made
        if made is None:
            raise StackFailed(f"{entry.logical_id} was never made")
        update = kind.update
        replacing = [key for key in kind.update_replaces if entry.properties.get(key) != properties.get(key)]
        if update is None or replacing:
            # A type that is not changed in place here, and is on AWS, wants the old one's name: that goes first.
            old = self._request(stack, entry, entry.properties)

            def replace(request: Request) -> Made:
                kind.require_another_name(properties, replacing)
                kind.delete(old, made)
                return kind.create(request)

            self._run(stack, entry, "UPDATE", replace, properties)
        else:
            self._run(stack, entry, "UPDATE", lambda request: update(request, made), properties)
        entry.template = resource

    def _run(
        self,
        stack: Stack,
        entry: StackResource,
        verb: str,
        work: Callable[[Request], Made],
        properties: Mapping[str, Any],
    ) -> None:
        self._set_resource(stack, entry, f"{verb}_IN_PROGRESS")
        try:
            entry.made = work(self._request(stack, entry, properties))
        except (ClientError, BotoCoreError, TemplateError, KeyError, TypeError, ValueError) as error:
            reason = f"missing property {error}" if isinstance(error, KeyError) else str(error)
            self._set_resource(stack, entry, f"{verb}_FAILED", reason)
            raise StackFailed(f"{entry.logical_id} ({entry.type}): {reason}") from error
        entry.properties = properties
        self._set_resource(stack, entry, f"{verb}_COMPLETE")

    def _delete_all(self, stack: Stack, names: list[str], kept_policies: frozenset[str]) -> list[str]:
        """Delete in reverse order, and again for what another held fast; returns what is left.

        What has one of these deletion policies stays, and is the stack's no longer.
        """
        left = [name for name in reversed(names) if stack.resources[name].made is not None]
        for name in set(names) - set(left):
            stack.resources.pop(name)
        for _ in range(DELETE_PASSES):
            for name in list(left):
                entry = stack.resources[name]
                if entry.template.get("DeletionPolicy") in kept_policies:
                    self._set_resource(stack, entry, "DELETE_SKIPPED")
                elif not self._delete_one(stack, entry):
                    continue
                left.remove(name)
                stack.resources.pop(name)
            if not left:
                break
        return left

    def _delete_one(self, stack: Stack, entry: StackResource) -> bool:
        if entry.made is None:
            return True
        self._set_resource(stack, entry, "DELETE_IN_PROGRESS")
        try:
            RESOURCE_TYPES[entry.type].delete(self._request(stack, entry, entry.properties), entry.made)
        except (ClientError, BotoCoreError, TemplateError) as error:
            self._set_resource(stack, entry, "DELETE_FAILED", str(error))
            return False
        self._set_resource(stack, entry, "DELETE_COMPLETE")
        return True

    # -- bookkeeping ---------------------------------------------------------------------------------------

    def _request(self, stack: Stack, entry: StackResource, properties: Mapping[str, Any]) -> Request:
        random = uuid.uuid5(uuid.NAMESPACE_URL, f"{stack.id}/{entry.logical_id}").hex[:12].upper()
        return Request(self._cloud, stack.name, entry.logical_id, properties, random)

    def _scope(self, stack: Stack) -> Scope:
        settings = self._cloud.settings
        pseudo = {
            "AWS::AccountId": settings.account_id,
            "AWS::Partition": get_partition(settings.region),
            "AWS::Region": settings.region,
            "AWS::StackId": stack.id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        return Scope(
            pseudo,
            lambda name: self._made(stack, name).physical_id,
            lambda name, attribute: self._attribute(stack, name, attribute),
        )

    def _made(self, stack: Stack, name: str) -> Made:
        entry = stack.resources.get(name)
        if entry is None or entry.made is None:
            raise TemplateError(f"Unresolved resource dependencies [{name}]")
        return entry.made

    def _attribute(self, stack: Stack, name: str, attribute: str) -> Any:
        attributes = self._made(stack, name).attributes
        if attribute not in attributes:
            raise TemplateError(
                f"{name} has no attribute {attribute} in the local cloud; it has {sorted(attributes)}"
            )
        return attributes[attribute]

    def _outputs(self, stack: Stack) -> list[dict[str, str]]:
        scope = self._scope(stack)
        outputs = []
        for name, spec in stack.template.get("Outputs", {}).items():
            output = {"OutputKey": name, "OutputValue": str(resolve(spec["Value"], scope))}
            if "Description" in spec:
                output["Description"] = spec["Description"]
            outputs.append(output)
        return outputs

    def _set_status(self, stack: Stack, status: str, reason: str = "") -> None:
        stack.status, stack.reason = status, reason
        self._event(stack, stack.name, "AWS::CloudFormation::Stack", stack.id, status, reason)

    def _set_resource(self, stack: Stack, entry: StackResource, status: str, reason: str = "") -> None:
        entry.status, entry.reason, entry.at = status, reason, self._cloud.clock.now()
        physical_id = entry.made.physical_id if entry.made else ""
        self._event(stack, entry.logical_id, entry.type, physical_id, status, reason)

    def _event(
        self, stack: Stack, logical_id: str, kind: str, physical_id: str, status: str, reason: str
    ) -> None:
        stack.events.append(
            {
                "StackId": stack.id,
                "StackName": stack.name,
                "EventId": str(uuid.uuid4()),
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id,
                "ResourceType": kind,
                "Timestamp": self._cloud.clock.now(),
                "ResourceStatus": status,
                **({"ResourceStatusReason": reason} if reason else {}),
            }
        )


def parse_template(body: str) -> dict[str, Any]:
    """A template from JSON. Raises the ValidationError that AWS answers with, and one for what is not made here."""
    try:
        template = json.loads(body)
    except ValueError as error:
        raise validation_error(f"Template format error: {error}") from error
    if not isinstance(template, dict) or not template.get("Resources"):
        raise validation_error("Template format error: At least one Resources member must be defined.")
    missing = [part for part in NOT_HERE if template.get(part)]
    if missing:
        raise validation_error(f"The local cloud has no {missing[0]} of a template.")
    unknown = sorted({resource["Type"] for resource in template["Resources"].values()} - set(RESOURCE_TYPES))
    if unknown:
        raise validation_error(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    try:
        creation_order(template["Resources"])
    except TemplateError as error:
        raise validation_error(f"Template format error: {error}") from error
    return template


def validation_error(message: str) -> InjectedFailure:
    return InjectedFailure("ValidationError", message)
