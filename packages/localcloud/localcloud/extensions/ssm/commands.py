"""Systems Manager Run Command: SendCommand really runs the document's steps on the host, as root.

moto keeps the documents and the Parameter Store. Time limits are real seconds: they guard real work.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.ec2.utils import filter_reservations
from moto.ssm.exceptions import SSMException
from moto.ssm.models import ssm_backends

from localcloud.dataplane import DataPlaneError, RunningCommand, RunResult
from localcloud.extensions.ec2.state import Ec2State, ec2_state
from localcloud.extensions.ssm.command_document import (
    AWS_RUN_SHELL_SCRIPT,
    BoundDocument,
    CommandDocument,
    InvalidDocument,
    InvalidParameters,
    Step,
)

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

STDOUT_CHARACTERS = 24_000
COMMAND_FILTERS = frozenset({"InvokedAfter", "InvokedBefore", "Status", "ExecutionStage", "DocumentName"})
STDERR_CHARACTERS = 8_000
PLUGIN_OUTPUT_CHARACTERS = 2_500
DELIVERY_SECONDS = (30, 2_592_000, 3_600)  # lowest, highest, default
LARGEST_DOCUMENT_BYTES = 64 * 1024
INSTANCES_PER_COMMAND = 50
STOPPED_EARLY = 137  # the agent's code for a plugin that was timed out or cancelled
NOT_STARTED = -1
POLL_SECONDS = 0.2
AGENT_VERSION = "3.3.3050.0"
ENDED = ("Success", "Failed", "TimedOut", "Cancelled")


@dataclass
class StepRun:
    """How one step goes on one host."""

    step: Step
    status: str = "Pending"
    details: str = "Pending"
    response_code: int = NOT_STARTED
    stdout: str = ""
    stderr: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass
class Invocation:
    """A command on one host."""

    instance_id: str
    steps: list[StepRun]
    visible_at: float
    status: str = "Pending"
    details: str = "Pending"
    cancelled: bool = False
    running: RunningCommand | None = None


@dataclass
class Command:
    """One SendCommand."""

    command_id: str
    document: BoundDocument
    request: Mapping[str, Any]
    requested_at: datetime
    delivery_seconds: int
    invocations: list[Invocation] = field(default_factory=list)


class RunCommand:
    """The commands of one cloud."""

    def __init__(self, state: Ec2State) -> None:
        self.state = state
        self.cloud = state.cloud
        self._commands: dict[str, Command] = {}
        self._lock = threading.RLock()
        self._random = random.Random(state.cloud.settings.seed)

    # -- managed instances ---------------------------------------------------------------------------------

    def online(self, instance_id: str) -> bool:
        """True when the host's agent would answer: it is up, and has been for a short while."""
        instance = self.state.backend.get_instance_by_id(instance_id)
        return (
            instance is not None
            and instance.state == "running"
            and self.state.dataplane.hosts.is_up(instance_id)
            and self.state.running_seconds(instance_id) >= 3 * self.state.transition_seconds
        )

    def managed(self) -> list[Any]:
        """Instances whose agent has registered."""
        return [
            instance
            for instance in self.state.backend.all_instances()
            if self.online(instance.id)
            or instance.state in ("stopping", "stopped")
            or (instance.state == "running" and not self.state.dataplane.hosts.is_up(instance.id))
        ]

    # -- SendCommand ---------------------------------------------------------------------------------------

    def send(self, request: Mapping[str, Any]) -> Command:
        document = self._document(request)
        try:
            bound = document.bind(request.get("Parameters") or {})
        except InvalidParameters as error:
            raise _error("InvalidParameters", str(error)) from error
        delivery_seconds = _delivery_seconds(request.get("TimeoutSeconds"))
        instance_ids = self._instance_ids(request)
        command = Command(
            str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
            bound,
            request,
            self.cloud.clock.now(),
            delivery_seconds,
        )
        for instance_id in instance_ids:
            delay = self.cloud.settings.describe_delay_seconds * self._random.uniform(0.3, 1.0)
            steps = [StepRun(step) for step in document.steps]
            command.invocations.append(Invocation(instance_id, steps, time.monotonic() + delay))
        with self._lock:
            self._commands[command.command_id] = command
        for invocation in command.invocations:
            self.cloud.background(f"ssm-{invocation.instance_id}", self._runner(command, invocation))
        return command

    def _runner(self, command: Command, invocation: Invocation) -> Callable[[], None]:
        return lambda: self._run(command, invocation)

    def _document(self, request: Mapping[str, Any]) -> CommandDocument:
        name = str(request.get("DocumentName", "")).rsplit("/", 1)[-1]
        settings = self.cloud.settings
        documents = ssm_backends[settings.account_id][settings.region]._documents.get(name)
        if documents is None and name == "AWS-RunShellScript":
            version, content, text = "1", AWS_RUN_SHELL_SCRIPT, json.dumps(AWS_RUN_SHELL_SCRIPT)
        elif documents is None:
            raise _error("InvalidDocument", f"Document with name {name} does not exist.")
        else:
            wanted = request.get("DocumentVersion")
            wanted = None if wanted == "$DEFAULT" else wanted
            record = documents.find(wanted, strict=False)
            if record is None:
                raise _error("InvalidDocumentVersion", f"Document {name} has no version {wanted}.")
            version, content, text = record.document_version, record.content_json, str(record.content)
            if record.document_type != "Command":
                raise _error("InvalidDocument", f"Document {name} is not of type Command.")
        digest = hashlib.sha256(text.encode()).hexdigest()
        if request.get("DocumentHash") not in (None, digest):
            raise _error("InvalidDocument", f"Document {name} does not have the hash that was asked for.")
        size = len(text.encode()) + len(json.dumps(request.get("Parameters") or {}).encode())
        if size > LARGEST_DOCUMENT_BYTES:
            raise _error(
                "MaxDocumentSizeExceeded", f"{name} with its parameters has {size} bytes, over 64 KB."
            )
        try:
            return CommandDocument.parse(name, version, content)
        except InvalidDocument as error:
            raise _error("InvalidDocument", str(error)) from error

    def _instance_ids(self, request: Mapping[str, Any]) -> list[str]:
        ids = list(request.get("InstanceIds") or [])
        if len(set(ids)) != len(ids):
            raise _error("DuplicateInstanceId", "You can't specify an instance ID in more than one target.")
        if len(ids) > INSTANCES_PER_COMMAND:
            raise _error("ValidationException", f"instanceIds: at most {INSTANCES_PER_COMMAND}.")
        invalid = [instance_id for instance_id in ids if not self.online(instance_id)]
        if invalid:
            raise _error(
                "InvalidInstanceId",
                f"Instances [{', '.join(invalid)}] not in a valid state for account "
                f"{self.cloud.settings.account_id}",
            )
        targets = request.get("Targets") or []
        if not ids and not targets:
            raise _error("InvalidInstanceId", "The command names no instance: set InstanceIds or Targets.")
        return [*ids, *(found for found in self._targeted(targets) if found not in ids)]

    def _targeted(self, targets: Sequence[Mapping[str, Any]]) -> list[str]:
        if not targets:
            return []
        filters = {
            "instance-id" if target["Key"].lower() == "instanceids" else target["Key"]: target["Values"]
            for target in targets
        }
        reservations = filter_reservations(self.state.backend.all_reservations(), filters)
        return [i.id for r in reservations for i in r.instances if self.online(i.id)]

    # -- a command on a host -------------------------------------------------------------------------------

    def _run(self, command: Command, invocation: Invocation) -> None:
        self._notify(command, invocation)
        if not self._delivered(command, invocation):
            return
        self._set(command, invocation, "InProgress", "InProgress")
        leaving = False
        for run in invocation.steps:
            if invocation.status in ENDED:
                return
            if invocation.cancelled or (leaving and not run.step.is_finally):
                continue
            self._run_step(command, invocation, run)
            failed = run.status in ("Failed", "TimedOut")
            leaving = leaving or (run.step.exits_on_failure if failed else run.step.exits_on_success)
        if not self.cloud.closing.is_set():
            self._finish(command, invocation)

    def _delivered(self, command: Command, invocation: Invocation) -> bool:
        deadline = time.monotonic() + command.delivery_seconds
        while not self.state.dataplane.hosts.is_up(invocation.instance_id):
            if invocation.cancelled or time.monotonic() > deadline:
                break
            if self.cloud.closing.wait(POLL_SECONDS):
                return False
        if invocation.cancelled:
            self._set(command, invocation, "Cancelled", "Cancelled")
        elif not self.state.dataplane.hosts.is_up(invocation.instance_id):
            self._set(command, invocation, "TimedOut", "DeliveryTimedOut")
        return invocation.status not in ENDED

    def _run_step(self, command: Command, invocation: Invocation, run: StepRun) -> None:
        run.started_at = self.cloud.clock.now()
        run.status = run.details = "InProgress"
        if not command.document.applies(run.step):
            message = "Step execution skipped due to unsatisfied preconditions.\n"
            self._end(run, "Success", RunResult(0, message, ""))
            return
        try:
            script = command.document.script(run.step)
            started = self._start(command, invocation, script.argv())
        except (InvalidDocument, DataPlaneError) as error:
            self._end(run, "Failed", RunResult(1, "", f"{error}\n"))
            return
        if started is None:
            self._end(run, "Cancelled", RunResult(None, "", "", cancelled=True))
            return
        result = started.wait(script.timeout_seconds)
        if not (result.timed_out or result.cancelled) and not self._agent_lives(command, invocation):
            return
        self._end(run, _status(result), result)
        self._store_output(command, invocation, run)

    def _start(self, command: Command, invocation: Invocation, argv: Sequence[str]) -> RunningCommand | None:
        with self._lock:
            if invocation.cancelled:
                return None
            invocation.running = self.state.dataplane.hosts.start_command(
                invocation.instance_id, argv, command.document.environment()
            )
            return invocation.running

    def _agent_lives(self, command: Command, invocation: Invocation) -> bool:
        """A dead host reports nothing: the command is InProgress until it expires or the host is back."""
        deadline = time.monotonic() + command.delivery_seconds
        while not self.state.dataplane.hosts.is_up(invocation.instance_id):
            if invocation.cancelled or time.monotonic() > deadline:
                details = "Cancelled" if invocation.cancelled else "DeliveryTimedOut"
                self._set(command, invocation, "Cancelled" if invocation.cancelled else "TimedOut", details)
                return False
            if self.cloud.closing.wait(POLL_SECONDS):
                return False
        return True

    def _end(self, run: StepRun, status: str, result: RunResult) -> None:
        code = STOPPED_EARLY if result.exit_code is None else result.exit_code
        stderr = result.stderr
        if status == "Failed" and result.exit_code:
            stderr += f"failed to run commands: exit status {result.exit_code}"
        with self._lock:
            run.stdout, run.stderr, run.response_code = result.stdout, stderr, code
            run.ended_at = self.cloud.clock.now()
            run.status = status
            run.details = "ExecutionTimedOut" if status == "TimedOut" else status

    def _finish(self, command: Command, invocation: Invocation) -> None:
        statuses = {run.status for run in invocation.steps}
        if invocation.cancelled:
            self._set(command, invocation, "Cancelled", "Cancelled")
        elif "TimedOut" in statuses:
            self._set(command, invocation, "TimedOut", "ExecutionTimedOut")
        elif "Failed" in statuses:
            self._set(command, invocation, "Failed", "Failed")
        else:
            self._set(command, invocation, "Success", "Success")

    def _set(self, command: Command, invocation: Invocation, status: str, details: str) -> None:
        with self._lock:
            if invocation.status == status or (invocation.status == "Cancelling" and status == "InProgress"):
                return
            invocation.status, invocation.details = status, details
        self._notify(command, invocation)

    def _notify(self, command: Command, invocation: Invocation) -> None:
        """The two events that AWS sends, best effort as there: a failing rule must not stop the command."""
        try:
            self._put_events(command, invocation)
        except Exception:
            log.exception("no event for %s on %s", command.command_id, invocation.instance_id)

    def _put_events(self, command: Command, invocation: Invocation) -> None:
        detail = {
            "command-id": command.command_id,
            "document-name": command.document.document.name,
            "requested-date-time": command.requested_at.isoformat(),
            "status": invocation.status,
        }
        self.cloud.put_event(
            "aws.ssm",
            "EC2 Command Invocation Status-change Notification",
            {**detail, "instance-id": invocation.instance_id},
        )
        if len({other.status for other in command.invocations}) == 1:
            parameters = json.dumps(dict(command.request.get("Parameters") or {}))
            detail["parameters"] = parameters
            self.cloud.put_event("aws.ssm", "EC2 Command Status-change Notification", detail)

    def _store_output(self, command: Command, invocation: Invocation, run: StepRun) -> None:
        bucket = command.request.get("OutputS3BucketName")
        if not bucket:
            return
        parts = [command.request.get("OutputS3KeyPrefix"), command.command_id, invocation.instance_id]
        prefix = "/".join([*(part for part in parts if part), "awsrunShellScript", run.step.name])
        for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
            if text:
                self.cloud.client("s3").put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=text.encode())

    # -- looking and cancelling ----------------------------------------------------------------------------

    def cancel(self, command_id: str, instance_ids: Sequence[str]) -> None:
        command = self.command(command_id)
        unknown = set(instance_ids) - {invocation.instance_id for invocation in command.invocations}
        if unknown:
            raise _error("InvalidInstanceId", f"{sorted(unknown)} are not targets of {command_id}.")
        for invocation in command.invocations:
            if instance_ids and invocation.instance_id not in instance_ids:
                continue
            with self._lock:
                if invocation.status in ENDED:
                    continue
                invocation.cancelled = True
                invocation.status = invocation.details = "Cancelling"
                running = invocation.running
            if running is not None:
                running.cancel()

    def command(self, command_id: str) -> Command:
        if command_id not in self._commands:
            raise _error("InvalidCommandId", f"{command_id} is not a command of this account.")
        return self._commands[command_id]

    def commands(self, command_id: str | None, instance_id: str | None) -> list[Command]:
        """Commands, newest first."""
        chosen = [self.command(command_id)] if command_id else list(self._commands.values())
        if instance_id:
            chosen = [c for c in chosen if instance_id in [i.instance_id for i in c.invocations]]
        return list(reversed(chosen))

    def invocation(self, command_id: str, instance_id: str) -> tuple[Command, Invocation]:
        """Raises InvocationDoesNotExist, also for a short while after SendCommand."""
        command = self._commands.get(command_id)
        for invocation in command.invocations if command else []:
            if invocation.instance_id == instance_id and time.monotonic() >= invocation.visible_at:
                assert command is not None
                return command, invocation
        raise _error("InvocationDoesNotExist", "")

    def close(self) -> None:
        """Kill what still runs."""
        for command in list(self._commands.values()):
            for invocation in command.invocations:
                if invocation.running is not None and invocation.status not in ENDED:
                    invocation.running.cancel()


def _status(result: RunResult) -> str:
    if result.cancelled:
        return "Cancelled"
    if result.timed_out:
        return "TimedOut"
    return "Success" if result.exit_code == 0 else "Failed"


def _delivery_seconds(value: Any) -> int:
    low, high, default = DELIVERY_SECONDS
    if value is None:
        return default
    if not low <= int(value) <= high:
        raise _error("ValidationException", f"timeoutSeconds: must be between {low} and {high}, not {value}.")
    return int(value)


def _error(code: str, message: str) -> SSMException:
    return SSMException(code, message)


# -- API actions ---------------------------------------------------------------------------------------------


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
            raise _error("InvalidFilterKey", f"{unknown[0]} is not a filter of ListCommands.")
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
            "AgentVersion": AGENT_VERSION,
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
            raise _error("InvalidPluginName", "The document has several steps: name one in PluginName.")
        return invocation.steps[0]
    for run in invocation.steps:
        if run.step.name == name or (len(invocation.steps) == 1 and run.step.action == name):
            return run
    raise _error("InvalidPluginName", f"The document has no step {name}.")


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
