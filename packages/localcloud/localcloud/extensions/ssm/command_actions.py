"""Run Command in Systems Manager's API."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult

from localcloud.extensions.ec2.state import ec2_state, page
from localcloud.extensions.ssm.command_records import Command
from localcloud.extensions.ssm.commands import ENDED, RunCommand, ssm_error

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


STDOUT_CHARACTERS = 24_000
STDERR_CHARACTERS = 8_000
PLUGIN_OUTPUT_CHARACTERS = 2_500
MOST_AT_ONCE = 50


class SsmActions:
    """The SSM API's Run Command actions."""

    def __init__(self, commands: RunCommand) -> None:
        self.commands = commands

    def send_command(self, response: Any) -> ActionResult:
        request = json.loads(response.body)
        return ActionResult({"Command": self._describe_command(self.commands.send(request))})

    def cancel_command(self, response: Any) -> ActionResult:
        self.commands.cancel(response._get_param("CommandId"), response._get_param("InstanceIds") or [])
        return ActionResult({})

    def get_command_invocation(self, response: Any) -> ActionResult:
        command = self.commands.visible(response._get_param("CommandId"), response._get_param("InstanceId"))
        ended = command.status in ENDED and command.ended_at is not None
        return ActionResult(
            {
                "CommandId": command.command_id,
                "InstanceId": command.instance_id,
                "Comment": command.request.get("Comment", ""),
                "DocumentName": command.document.document.name,
                "DocumentVersion": command.document.document.version,
                "PluginName": command.document.document.step_name,
                "ResponseCode": command.response_code,
                "ExecutionStartDateTime": _iso(command.started_at),
                "ExecutionEndDateTime": _iso(command.ended_at),
                "Status": command.status,
                "StatusDetails": command.details,
                "StandardOutputContent": command.stdout[:STDOUT_CHARACTERS] if ended else "",
                "StandardErrorContent": command.stderr[:STDERR_CHARACTERS] if ended else "",
            }
        )

    def list_commands(self, response: Any) -> ActionResult:
        commands = self.commands.commands(response._get_param("CommandId"), response._get_param("InstanceId"))
        filters = _filters(response, "InvokedAfter")
        if "InvokedAfter" in filters:
            after = datetime.fromisoformat(filters["InvokedAfter"])
            commands = [command for command in commands if command.requested_at >= after]
        shown = [self._describe_command(command) for command in commands]
        found, token = page(response, shown, MOST_AT_ONCE)
        return ActionResult({"Commands": found, "NextToken": token})

    def list_command_invocations(self, response: Any) -> ActionResult:
        """Each command is of one instance: its only invocation."""
        filters = _filters(response, "Status")
        commands = self.commands.commands(response._get_param("CommandId"), response._get_param("InstanceId"))
        shown = [
            self._describe_invocation(command, bool(response._get_param("Details")))
            for command in commands
            if time.monotonic() >= command.visible_at
            and command.status == filters.get("Status", command.status)
        ]
        found, token = page(response, shown, MOST_AT_ONCE)
        return ActionResult({"CommandInvocations": found, "NextToken": token})

    def describe_instance_information(self, response: Any) -> ActionResult:
        filters = _filters(response, "InstanceIds", "Key", "Values")
        shown = [
            self._describe_instance(instance)
            for instance in self.commands.managed()
            if instance.id in filters.get("InstanceIds", [instance.id])
        ]
        found, token = page(response, shown, MOST_AT_ONCE)
        return ActionResult({"InstanceInformationList": found, "NextToken": token})

    def _describe_command(self, command: Command) -> dict[str, Any]:
        return {
            "CommandId": command.command_id,
            "DocumentName": command.document.document.name,
            "DocumentVersion": command.document.document.version,
            "Comment": command.request.get("Comment", ""),
            "ExpiresAfter": command.requested_at + timedelta(seconds=command.delivery_seconds),
            "Parameters": command.request.get("Parameters") or {},
            "InstanceIds": [command.instance_id],
            "RequestedDateTime": command.requested_at,
            "Status": command.status,
            "StatusDetails": command.details,
            "TimeoutSeconds": command.delivery_seconds,
        }

    def _describe_invocation(self, command: Command, with_details: bool) -> dict[str, Any]:
        plugin = {
            "Name": command.document.document.step_name,
            "Status": command.status,
            "StatusDetails": command.details,
            "ResponseCode": command.response_code,
            "Output": command.stdout[:PLUGIN_OUTPUT_CHARACTERS],
        }
        return {
            "CommandId": command.command_id,
            "InstanceId": command.instance_id,
            "Comment": command.request.get("Comment", ""),
            "DocumentName": command.document.document.name,
            "RequestedDateTime": command.requested_at,
            "Status": command.status,
            "StatusDetails": command.details,
            "CommandPlugins": [plugin] if with_details else [],
        }

    def _describe_instance(self, instance: Any) -> dict[str, Any]:
        return {
            "InstanceId": instance.id,
            "PingStatus": "Online" if self.commands.online(instance.id) else "ConnectionLost",
            "LastPingDateTime": self.commands.cloud.clock.now(),
            "AgentVersion": self.commands.agent_version(instance.id),
            "IsLatestVersion": True,
            "PlatformType": "Linux",
            "PlatformName": "Debian GNU/Linux",
            "ResourceType": "EC2Instance",
            "IPAddress": instance.private_ip,
            "ComputerName": instance.private_dns_name,
        }


def _filters(response: Any, known: str, key: str = "key", value: str = "value") -> dict[str, Any]:
    filters = {one[key]: one[value] for one in response._get_param("Filters") or []}
    if unknown := sorted(filters.keys() - {known}):
        raise ssm_error("InvalidFilterKey", f"{unknown[0]} is not a filter here.")
    return filters


def _iso(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if moment else ""


def install(cloud: OpenCloud) -> None:
    """Answer Run Command from the data plane's hosts. Without a data plane moto stays in charge."""
    from moto.ssm.responses import SimpleSystemManagerResponse

    if cloud.dataplane is None:
        return
    state = ec2_state(cloud)
    commands = RunCommand(state)
    actions = SsmActions(commands)
    for name in ("send_command", "get_command_invocation", "list_commands"):
        state.replace_action(SimpleSystemManagerResponse, name, getattr(actions, name))
    for name in ("cancel_command", "list_command_invocations", "describe_instance_information"):
        state.add_action(SimpleSystemManagerResponse, name, getattr(actions, name))
    cloud.on_close(commands.close)
