"""Run Command in Systems Manager's API."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.ec2.utils import filter_reservations

from localcloud.extensions.ec2.state import ec2_state
from localcloud.extensions.ssm.command_records import Command, Invocation, StepRun
from localcloud.extensions.ssm.commands import ENDED, RunCommand, ssm_error

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


STDOUT_CHARACTERS = 24_000
COMMAND_FILTERS = frozenset({"InvokedAfter", "InvokedBefore", "Status", "ExecutionStage", "DocumentName"})
STDERR_CHARACTERS = 8_000
PLUGIN_OUTPUT_CHARACTERS = 2_500


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
        command, invocation = self.commands.invocation(
            response._get_param("CommandId"), response._get_param("InstanceId")
        )
        run = _chosen_step(invocation, response._get_param("PluginName"))
        ended = run.status in ENDED and run.ended_at is not None
        status, details = (
            (run.status, run.details)
            if len(invocation.steps) > 1
            else (
                invocation.status,
                invocation.details,
            )
        )
        return ActionResult(
            {
                "CommandId": command.command_id,
                "InstanceId": invocation.instance_id,
                "Comment": command.request.get("Comment", ""),
                "DocumentName": command.document.document.name,
                "DocumentVersion": command.document.document.version,
                "PluginName": run.step.name,
                "ResponseCode": run.response_code,
                "ExecutionStartDateTime": _iso(run.started_at),
                "ExecutionElapsedTime": _elapsed(run),
                "ExecutionEndDateTime": _iso(run.ended_at),
                "Status": status,
                "StatusDetails": details,
                "StandardOutputContent": run.stdout[:STDOUT_CHARACTERS] if ended else "",
                "StandardOutputUrl": "",
                "StandardErrorContent": run.stderr[:STDERR_CHARACTERS] if ended else "",
                "StandardErrorUrl": "",
            }
        )

    def list_commands(self, response: Any) -> ActionResult:
        commands = self.commands.commands(response._get_param("CommandId"), response._get_param("InstanceId"))
        filters = {f["key"]: f["value"] for f in response._get_param("Filters") or []}
        if unknown := sorted(filters.keys() - COMMAND_FILTERS):
            raise ssm_error("InvalidFilterKey", f"{unknown[0]} is not a filter of ListCommands.")
        shown = [self._describe_command(command) for command in commands]
        for key in ("Status", "DocumentName"):
            if key in filters:
                shown = [command for command in shown if command[key] == filters[key]]
        if "InvokedAfter" in filters:
            after = datetime.fromisoformat(filters["InvokedAfter"])
            shown = [command for command in shown if command["RequestedDateTime"] >= after]
        if "InvokedBefore" in filters:
            before = datetime.fromisoformat(filters["InvokedBefore"])
            shown = [command for command in shown if command["RequestedDateTime"] < before]
        page, token = _page(response, shown)
        return ActionResult({"Commands": page, "NextToken": token})

    def list_command_invocations(self, response: Any) -> ActionResult:
        instance_id = response._get_param("InstanceId")
        commands = self.commands.commands(response._get_param("CommandId"), instance_id)
        shown = [
            self._describe_invocation(command, invocation, bool(response._get_param("Details")))
            for command in commands
            for invocation in command.invocations
            if instance_id in (None, invocation.instance_id) and time.monotonic() >= invocation.visible_at
        ]
        filters = {f["key"]: f["value"] for f in response._get_param("Filters") or []}
        if "Status" in filters:
            shown = [invocation for invocation in shown if invocation["Status"] == filters["Status"]]
        page, token = _page(response, shown)
        return ActionResult({"CommandInvocations": page, "NextToken": token})

    def describe_instance_information(self, response: Any) -> ActionResult:
        filters = {f["Key"]: f["Values"] for f in response._get_param("Filters") or []}
        for old in response._get_param("InstanceInformationFilterList") or []:
            filters[old["key"]] = old["valueSet"]
        shown = [self._describe_instance(instance) for instance in self.commands.managed()]
        for key, field_name in (("InstanceIds", "InstanceId"), ("PingStatus", "PingStatus")):
            if key in filters:
                shown = [entry for entry in shown if entry[field_name] in filters[key]]
        for key in [key for key in filters if key.startswith("tag:")]:
            tagged = filter_reservations(self.commands.state.backend.all_reservations(), {key: filters[key]})
            ids = {instance.id for reservation in tagged for instance in reservation.instances}
            shown = [entry for entry in shown if entry["InstanceId"] in ids]
        page, token = _page(response, shown)
        return ActionResult({"InstanceInformationList": page, "NextToken": token})

    def _describe_command(self, command: Command) -> dict[str, Any]:
        statuses = [invocation.status for invocation in command.invocations]
        status = _command_status(statuses)
        return {
            "CommandId": command.command_id,
            "DocumentName": command.document.document.name,
            "DocumentVersion": command.document.document.version,
            "Comment": command.request.get("Comment", ""),
            "ExpiresAfter": command.requested_at + timedelta(seconds=command.delivery_seconds),
            "Parameters": command.request.get("Parameters") or {},
            "InstanceIds": command.request.get("InstanceIds") or [],
            "Targets": command.request.get("Targets") or [],
            "RequestedDateTime": command.requested_at,
            "Status": status,
            "StatusDetails": status if statuses else "NoInstancesInTag",
            "OutputS3BucketName": command.request.get("OutputS3BucketName", ""),
            "OutputS3KeyPrefix": command.request.get("OutputS3KeyPrefix", ""),
            "MaxConcurrency": str(command.request.get("MaxConcurrency", "50")),
            "MaxErrors": str(command.request.get("MaxErrors", "0")),
            "TargetCount": len(statuses),
            "CompletedCount": sum(status in ENDED for status in statuses),
            "ErrorCount": sum(status in ("Failed", "TimedOut") for status in statuses),
            "DeliveryTimedOutCount": sum(i.details == "DeliveryTimedOut" for i in command.invocations),
            "TimeoutSeconds": command.delivery_seconds,
        }

    def _describe_invocation(
        self, command: Command, invocation: Invocation, with_details: bool
    ) -> dict[str, Any]:
        described: dict[str, Any] = {
            "CommandId": command.command_id,
            "InstanceId": invocation.instance_id,
            "InstanceName": "",
            "Comment": command.request.get("Comment", ""),
            "DocumentName": command.document.document.name,
            "DocumentVersion": command.document.document.version,
            "RequestedDateTime": command.requested_at,
            "Status": invocation.status,
            "StatusDetails": invocation.details,
            "CommandPlugins": [],
        }
        if with_details:
            described["CommandPlugins"] = [
                {
                    "Name": run.step.name,
                    "Status": run.status,
                    "StatusDetails": run.details,
                    "ResponseCode": run.response_code,
                    "ResponseStartDateTime": run.started_at,
                    "ResponseFinishDateTime": run.ended_at,
                    "Output": run.stdout[:PLUGIN_OUTPUT_CHARACTERS],
                }
                for run in invocation.steps
            ]
        return described

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


def _command_status(statuses: Sequence[str]) -> str:
    for status in ("InProgress", "Cancelling", "Pending", "TimedOut", "Failed", "Cancelled"):
        if status in statuses:
            return "InProgress" if status == "Pending" and len(set(statuses)) > 1 else status
    return "Success"


def _chosen_step(invocation: Invocation, name: str | None) -> StepRun:
    if name is None:
        if len(invocation.steps) > 1:
            raise ssm_error("InvalidPluginName", "The document has several steps: name one in PluginName.")
        return invocation.steps[0]
    for run in invocation.steps:
        if run.step.name == name or (len(invocation.steps) == 1 and run.step.action == name):
            return run
    raise ssm_error("InvalidPluginName", f"The document has no step {name}.")


def _iso(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if moment else ""


def _elapsed(run: StepRun) -> str:
    if run.started_at is None or run.ended_at is None:
        return ""
    return f"PT{(run.ended_at - run.started_at).total_seconds():.3f}S"


def _page(response: Any, items: Sequence[Any]) -> tuple[Sequence[Any], str | None]:
    start = int(response._get_param("NextToken") or 0)
    end = start + int(response._get_param("MaxResults") or 50)
    return items[start:end], str(end) if end < len(items) else None


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
