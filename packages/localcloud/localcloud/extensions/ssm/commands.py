"""Systems Manager Run Command: SendCommand really runs the document's step on the host, as root.

moto keeps the documents and the Parameter Store. Time limits are real seconds: they guard real work.
"""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
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
from localcloud.extensions.ssm.command_records import Command

DELIVERY_SECONDS = (30, 2_592_000, 3_600)  # lowest, highest, default
LARGEST_DOCUMENT_BYTES = 64 * 1024
NOT_HERE = ("OutputS3BucketName", "DocumentHash")
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
        # By id and instance: a command to several instances is one for each, under one id.
        self._commands: dict[tuple[str, str], Command] = {}
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
        delay = self.cloud.settings.describe_delay_seconds * self._random.uniform(0.3, 1.0)
        command_id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        asked_at, visible_at = self.cloud.clock.now(), time.monotonic() + delay
        sent = [
            Command(command_id, bound, request, asked_at, delivery_seconds, instance_id, visible_at)
            for instance_id in self._instance_ids(request)
        ]
        with self._lock:
            self._commands.update({(command_id, one.instance_id): one for one in sent})
        for one in sent:
            self.cloud.background(f"ssm-{one.instance_id}", partial(self._run, one))
        return sent[0]

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
        if not_here := [name for name in NOT_HERE if request.get(name)]:
            raise ssm_error("ValidationException", f"The local cloud knows no {not_here[0]} of a command.")
        ids = [str(one) for one in request.get("InstanceIds") or []]
        if targets := request.get("Targets"):
            filters = {target["Key"]: target["Values"] for target in targets}
            reservations = filter_reservations(self.state.backend.all_reservations(), filters)
            ids = [one.id for found in reservations for one in found.instances if self.online(one.id)]
            if not ids:
                text = "No instance has these tags: AWS takes such a command and runs it nowhere."
                raise ssm_error("InvalidTarget", text)
        if not ids or not all(map(self.online, ids)):
            account = self.cloud.settings.account_id
            raise ssm_error(
                "InvalidInstanceId", f"Instances {ids} not in a valid state for account {account}"
            )
        return ids

    # -- a command on a host -------------------------------------------------------------------------------

    def _run(self, command: Command) -> None:
        if not self._delivered(command):
            return
        with self._lock:
            if not command.cancelled:
                command.status = command.details = "InProgress"
        result = self._result(command)
        if not self.cloud.closing.is_set():
            self._end(command, result)

    def _delivered(self, command: Command) -> bool:
        deadline = time.monotonic() + command.delivery_seconds
        while not self.state.dataplane.hosts.is_up(command.instance_id):
            if command.cancelled or time.monotonic() > deadline:
                break
            if self.cloud.closing.wait(POLL_SECONDS):
                return False
        if command.cancelled:
            command.status = command.details = "Cancelled"
        elif not self.state.dataplane.hosts.is_up(command.instance_id):
            command.status, command.details = "TimedOut", "DeliveryTimedOut"
        return command.status not in ENDED

    def _result(self, command: Command) -> RunResult:
        command.started_at = self.cloud.clock.now()
        if not command.document.applies():
            return RunResult(0, "Step execution skipped due to unsatisfied preconditions.\n", "")
        try:
            script = command.document.script()
            began = time.monotonic()
            started = self._start(command, script.argv())
        except (InvalidDocument, DataPlaneError) as error:
            return RunResult(1, "", f"{error}\n")
        if started is None:
            return RunResult(None, "", "", cancelled=True)
        result = started.wait(script.timeout_seconds)
        if not (result.timed_out or result.cancelled) and self._went_away(command.instance_id, began):
            return self._lost(command, began + script.timeout_seconds + command.delivery_seconds)
        return result

    def _start(self, command: Command, argv: Sequence[str]) -> RunningCommand | None:
        with self._lock:
            if command.cancelled:
                return None
            version = self.agent_version(command.instance_id)
            command.running = self.state.dataplane.hosts.start_command(
                command.instance_id, argv, command.document.environment(version)
            )
            return command.running

    def _went_away(self, instance_id: str, since: float) -> bool:
        """The host is down, or has come to `running` after that."""
        up = self.state.dataplane.hosts.is_up(instance_id)
        return not up or self.state.running_seconds(instance_id) < time.monotonic() - since

    def _lost(self, command: Command, limit: float) -> RunResult:
        """Nobody reports: it is InProgress until it expires or is cancelled, also when the host is back.

        That is the hardest of what AWS's agent does (aws/amazon-ssm-agent issue 430).
        """
        while not command.cancelled and time.monotonic() < limit:
            if self.cloud.closing.wait(POLL_SECONDS):
                break
        return RunResult(None, "", "", timed_out=not command.cancelled, cancelled=command.cancelled)

    def _end(self, command: Command, result: RunResult) -> None:
        status = "Cancelled" if command.cancelled else _status(result)
        stderr = result.stderr
        if status == "Failed" and result.exit_code:
            stderr += f"failed to run commands: exit status {result.exit_code}"
        with self._lock:
            command.stdout, command.stderr = result.stdout, stderr
            command.response_code = STOPPED_EARLY if result.exit_code is None else result.exit_code
            command.ended_at = self.cloud.clock.now()
            command.status = status
            command.details = "ExecutionTimedOut" if status == "TimedOut" else status

    # -- looking and cancelling ----------------------------------------------------------------------------

    def cancel(self, command_id: str, instance_ids: Sequence[str]) -> None:
        targets = {one.instance_id: one for one in self.commands(command_id, None)}
        if unknown := sorted(set(instance_ids) - targets.keys()):
            raise ssm_error("InvalidInstanceId", f"{unknown} are not targets of {command_id}.")
        for one in [targets[instance_id] for instance_id in instance_ids or targets]:
            with self._lock:
                if one.status in ENDED:
                    continue
                one.cancelled = True
                one.status = one.details = "Cancelling"
                running = one.running
            if running is not None:
                running.cancel()

    def commands(self, command_id: str | None, instance_id: str | None) -> list[Command]:
        """Commands, newest first. Raises InvalidCommandId."""
        chosen = [one for one in self._commands.values() if command_id in (None, one.command_id)]
        if command_id is not None and not chosen:
            raise ssm_error("InvalidCommandId", f"{command_id} is not a command of this account.")
        return [one for one in reversed(chosen) if instance_id in (None, one.instance_id)]

    def visible(self, command_id: str, instance_id: str) -> Command:
        """Raises InvocationDoesNotExist, also for a short while after SendCommand."""
        command = self._commands.get((command_id, instance_id))
        if command is None or time.monotonic() < command.visible_at:
            raise ssm_error("InvocationDoesNotExist", "")
        return command

    def close(self) -> None:
        """Kill what still runs."""
        for command in list(self._commands.values()):
            if command.running is not None and command.status not in ENDED:
                command.running.cancel()


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
