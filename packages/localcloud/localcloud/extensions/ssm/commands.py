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
from typing import Any

from moto.ec2.utils import filter_reservations
from moto.ssm.exceptions import SSMException
from moto.ssm.models import ssm_backends

from localcloud.dataplane import DataPlaneError, RunningCommand, RunResult
from localcloud.extensions.ec2.state import Ec2State
from localcloud.extensions.ssm.command_document import (
    AWS_RUN_SHELL_SCRIPT,
    CommandDocument,
    InvalidDocument,
    InvalidParameters,
)
from localcloud.extensions.ssm.command_records import Command, Invocation, StepRun

log = logging.getLogger(__name__)
DELIVERY_SECONDS = (30, 2_592_000, 3_600)  # lowest, highest, default
LARGEST_DOCUMENT_BYTES = 64 * 1024
INSTANCES_PER_COMMAND = 50
STOPPED_EARLY = 137  # the agent's code for a plugin that was timed out or cancelled
POLL_SECONDS = 0.2
# The agent is part of what a host boots from: a tag of the image says which version, of the host one that came later.
AGENT_TAG, AGENT_VERSION = "localcloud:agent-version", "3.3.3050.0"
ENDED = ("Success", "Failed", "TimedOut", "Cancelled")


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

    def agent_version(self, instance_id: str) -> str:
        """Which SSM agent runs on the host."""
        backend = self.state.backend
        instance = backend.get_instance_by_id(instance_id)
        tagged = (backend.tags.get(one, {}) for one in (instance_id, getattr(instance, "image_id", "")))
        return next((str(tags[AGENT_TAG]) for tags in tagged if AGENT_TAG in tags), AGENT_VERSION)

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
            raise ssm_error("InvalidParameters", str(error)) from error
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
            raise ssm_error("InvalidDocument", f"Document with name {name} does not exist.")
        else:
            wanted = request.get("DocumentVersion")
            wanted = None if wanted == "$DEFAULT" else wanted
            record = documents.find(wanted, strict=False)
            if record is None:
                raise ssm_error("InvalidDocumentVersion", f"Document {name} has no version {wanted}.")
            version, content, text = record.document_version, record.content_json, str(record.content)
            if record.document_type != "Command":
                raise ssm_error("InvalidDocument", f"Document {name} is not of type Command.")
        digest = hashlib.sha256(text.encode()).hexdigest()
        if request.get("DocumentHash") not in (None, digest):
            raise ssm_error("InvalidDocument", f"Document {name} does not have the hash that was asked for.")
        size = len(text.encode()) + len(json.dumps(request.get("Parameters") or {}).encode())
        if size > LARGEST_DOCUMENT_BYTES:
            raise ssm_error(
                "MaxDocumentSizeExceeded", f"{name} with its parameters has {size} bytes, over 64 KB."
            )
        try:
            return CommandDocument.parse(name, version, content)
        except InvalidDocument as error:
            raise ssm_error("InvalidDocument", str(error)) from error

    def _instance_ids(self, request: Mapping[str, Any]) -> list[str]:
        ids = list(request.get("InstanceIds") or [])
        if len(set(ids)) != len(ids):
            raise ssm_error(
                "DuplicateInstanceId", "You can't specify an instance ID in more than one target."
            )
        if len(ids) > INSTANCES_PER_COMMAND:
            raise ssm_error("ValidationException", f"instanceIds: at most {INSTANCES_PER_COMMAND}.")
        invalid = [instance_id for instance_id in ids if not self.online(instance_id)]
        if invalid:
            raise ssm_error(
                "InvalidInstanceId",
                f"Instances [{', '.join(invalid)}] not in a valid state for account "
                f"{self.cloud.settings.account_id}",
            )
        targets = request.get("Targets") or []
        if not ids and not targets:
            raise ssm_error("InvalidInstanceId", "The command names no instance: set InstanceIds or Targets.")
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
            began = time.monotonic()
            started = self._start(command, invocation, script.argv())
        except (InvalidDocument, DataPlaneError) as error:
            self._end(run, "Failed", RunResult(1, "", f"{error}\n"))
            return
        if started is None:
            self._end(run, "Cancelled", RunResult(None, "", "", cancelled=True))
            return
        result = started.wait(script.timeout_seconds)
        if not (result.timed_out or result.cancelled) and self._went_away(invocation.instance_id, began):
            limit = began + script.timeout_seconds + command.delivery_seconds
            result = self._lost(invocation, limit)
        self._end(run, _status(result), result)
        self._store_output(command, invocation, run)

    def _start(self, command: Command, invocation: Invocation, argv: Sequence[str]) -> RunningCommand | None:
        with self._lock:
            if invocation.cancelled:
                return None
            invocation.running = self.state.dataplane.hosts.start_command(
                invocation.instance_id,
                argv,
                command.document.environment(self.agent_version(invocation.instance_id)),
            )
            return invocation.running

    def _went_away(self, instance_id: str, since: float) -> bool:
        """The host is down, or has come to `running` after that."""
        up = self.state.dataplane.hosts.is_up(instance_id)
        return not up or self.state.running_seconds(instance_id) < time.monotonic() - since

    def _lost(self, invocation: Invocation, limit: float) -> RunResult:
        """Nobody reports: it is InProgress until it expires or is cancelled, also when the host is back.

        That is the hardest of what AWS's agent does (aws/amazon-ssm-agent issue 430).
        """
        while not invocation.cancelled and time.monotonic() < limit:
            if self.cloud.closing.wait(POLL_SECONDS):
                break
        return RunResult(None, "", "", timed_out=not invocation.cancelled, cancelled=invocation.cancelled)

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
            raise ssm_error("InvalidInstanceId", f"{sorted(unknown)} are not targets of {command_id}.")
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
            raise ssm_error("InvalidCommandId", f"{command_id} is not a command of this account.")
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
        raise ssm_error("InvocationDoesNotExist", "")

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
        raise ssm_error(
            "ValidationException", f"timeoutSeconds: must be between {low} and {high}, not {value}."
        )
    return int(value)


def ssm_error(code: str, message: str) -> SSMException:
    return SSMException(code, message)
