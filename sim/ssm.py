"""Systems Manager and the hosts behind it: commands take time, are listed late, and change what runs on a host."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache, partial
from typing import Any

from peaker.adapters.ssm.commands import CLOCK_DIFFERENCE
from peaker.domain.host_results import OLDEST_AGENT, Agent
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus

from lab.simulated_hosts import HEALTHY, NO_PACKAGE, Pace, own, prewarm_report
from peaker_contract.errors import AwsCallRejected, AwsUnavailable
from sim.account import Account, Record, attachment_at, state_at
from sim.workflows.virtual_time import VirtualTime
from ssm_documents.schema import document_paths, load_document

# ListCommands and GetCommandInvocation know a command so much later at most.
LISTED_WITHIN_SECONDS = 10.0
KNOWN_WITHIN_SECONDS = 3.0
# A host that goes away leaves its command to its document's time-out; this is that of one without (aws:runShellScript).
LOST_AFTER_SECONDS = 3600.0
SLOWEST: Mapping[str, float] = {
    "stop_database": 90.0,
    "start_database": 60.0,
    "install_host_package": 20.0,
    "verify_storage": 120.0,
    "load_buffer_pool": 60.0,
}
# How a command ends whose host boots anew: nobody works on it and it stays InProgress until its time-out; the agent,
# back again, calls it killed; or it begins the document once more.
AFTER_A_RESTART = ("silent", "killed", "begun again")
KILLED = "failed to run commands: exit status 143"
NEEDS_DATABASE = (
    "start_replication",
    "wait_for_catch_up",
    "load_buffer_pool",
    "measure_service",
    "drain_replica",
)
NEEDS_STORAGE = ("assemble_storage", "start_prewarm", "report_prewarm", "verify_storage", "start_database")


@cache
def _content(document: str) -> dict[str, Any]:
    [path] = (one for one in document_paths() if one.stem == document)
    return dict(load_document(path))


@cache
def _lost_after(document: str) -> float:
    said = [step["inputs"].get("timeoutSeconds") for step in _content(document)["mainSteps"]]
    known = [float(one) for one in said if str(one).isdigit()]
    return sum(known) if len(known) == len(said) else LOST_AFTER_SECONDS


class HostileCommands:
    """Port CommandRunner. `scripts`: by document, and by document and host, what a host answers instead, in turn.

    `said`: by document, or `*` for all others, what Systems Manager says of commands whatever the hosts do.
    """

    def __init__(self, account: Account, time: VirtualTime, chance: random.Random) -> None:
        self.scripts: dict[tuple[str, str | None], list[Mapping[str, Any]]] = {}
        self.said: dict[str, CommandOutcome] = {}
        self.agent_version = OLDEST_AGENT
        self.after_a_restart = AFTER_A_RESTART
        self.pace = Pace(prewarm_mib=6000.0)
        # A new replica lacks what was written since its snapshots, not a given number of seconds.
        self.behind_since_snapshot = False
        self._account = account
        self._time = time
        self._random = chance

    def fail(self, document: str, error: str) -> None:
        """Hosts report this error class from now on."""
        answer = {"ok": False, "error": error, "message": f"{error} on purpose"}
        self.scripts[document, None] = [answer] * 1000

    def agent(self, instance_id: str) -> Agent:
        return Agent(self._account.is_so(instance_id, "up", self._time.seconds), self.agent_version)

    def silence(self, instance_id: str) -> None:
        """The host's agent answers no more."""
        self._account.happened(instance_id, self._time.seconds, "up", False)

    @property
    def sent(self) -> list[tuple[str, str, str]]:
        """Document, host and comment of all commands, in their order."""
        return [(one["document"], one["instance"], one["comment"]) for one in self._account.commands.values()]

    @property
    def parameters(self) -> list[dict[str, str]]:
        """Those of all commands, in their order."""
        return [one["parameters"] for one in self._account.commands.values()]

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        require_parameters(document, parameters)
        if not self.agent(instance_id).is_online:
            raise AwsUnavailable(f"ssm:SendCommand: InvalidInstanceId: {instance_id} does not answer")
        now = self._time.seconds
        command_id = self._account.next_id("command")
        took, result = self._answer(document, instance_id, parameters)
        record: Record = {
            "id": command_id,
            "document": document,
            "instance": instance_id,
            "comment": comment,
            "parameters": dict(parameters),
            "sent": now,
            "begun": now,
            "listed": now + self._random.uniform(0, LISTED_WITHIN_SECONDS),
            "known": now + self._random.uniform(0, KNOWN_WITHIN_SECONDS),
            "done": now + took,
            "result": result,
            "cancelled": None,
            "after a restart": None,
        }
        self._account.commands[command_id] = record
        if result.get("ok"):
            self._effects(record)
        return command_id

    def find(self, instance_id: str, comment: str, since: datetime) -> str | None:
        now = self._time.seconds
        found = [
            one
            for one in self._account.commands.values()
            if (one["instance"], one["comment"]) == (instance_id, comment)
            and one["listed"] <= now
            and self._time.datetime_of(one["sent"]) >= since - CLOCK_DIFFERENCE
        ]
        return max(found, key=lambda one: one["sent"])["id"] if found else None

    def outcome(self, command_id: str, instance_id: str) -> CommandOutcome:
        record, now = self._account.commands.get(command_id), self._time.seconds
        if record is None or record["known"] > now or record["instance"] != instance_id:
            return CommandOutcome(CommandStatus.MISSING)
        said = self.said.get(record["document"], self.said.get("*"))
        if said is not None:
            return said
        if record["cancelled"] is not None:
            return CommandOutcome(CommandStatus.CANCELLED, "Cancelled")
        died = self._died(record)
        if died is not None:
            if record["after a restart"] == "killed" and self._account.is_so(instance_id, "up", now):
                return CommandOutcome(CommandStatus.FAILED, "Failed", "", KILLED)
            if now < record["sent"] + _lost_after(record["document"]):
                return CommandOutcome(CommandStatus.RUNNING)
            return CommandOutcome(CommandStatus.TIMED_OUT, "ExecutionTimedOut")
        if now < record["done"]:
            return CommandOutcome(CommandStatus.RUNNING)
        if not record["result"]:
            return CommandOutcome(CommandStatus.FAILED, "Failed", "", NO_PACKAGE.stderr)
        status = CommandStatus.SUCCESS if record["result"]["ok"] else CommandStatus.FAILED
        return CommandOutcome(status, status.value, f"progress\n{json.dumps(record['result'])}\n")

    def cancel(self, command_id: str, instance_id: str) -> None:
        """Best effort: what has begun on the host may go on."""
        record, now = self._account.commands.get(command_id), self._time.seconds
        if record is None or record["cancelled"] is not None or record["done"] <= now:
            return
        record["cancelled"] = now
        if self._random.random() < 0.5:
            host = self._account.hosts.get(instance_id, [])
            self._account.hosts[instance_id] = [
                one for one in host if not (one[0] > now and one[0] == record["done"])
            ]

    def at_work(self, instance_id: str) -> bool:
        """Whether the host works on a command now."""
        now = self._time.seconds
        return any(self._runs(one, now) for one in self._of(instance_id))

    def host_restarts(self, instance_id: str, boot_seconds: float) -> None:
        """What becomes of the commands on which it was at work."""
        now = self._time.seconds
        for record in self._of(instance_id):
            if not self._runs(record, now):
                continue
            record["after a restart"] = self._random.choice(self.after_a_restart)
            if record["after a restart"] == "begun again":
                again = partial(self._begins_again, record)
                self._time.after(boot_seconds + self._random.uniform(1, 20), again)

    def _begins_again(self, record: Record) -> None:
        now, host = self._time.seconds, record["instance"]
        if record["cancelled"] is not None or not self.agent(host).is_online:
            return
        took, result = self._answer(record["document"], host, record["parameters"])
        record.update(begun=now, done=now + took, result=result)
        if result.get("ok"):
            self._effects(record)

    def _of(self, instance_id: str) -> list[Record]:
        return [one for one in self._account.commands.values() if one["instance"] == instance_id]

    def _runs(self, record: Record, now: float) -> bool:
        working = record["cancelled"] is None and self._died(record) is None
        return bool(record["begun"] < now < record["done"]) and working

    def _died(self, record: Record) -> float | None:
        """When the host went away under the command, if it did."""
        end = min(self._time.seconds, record["done"])
        for at, what, value in self._account.hosts.get(record["instance"], []):
            if what == "up" and value is False and record["begun"] < at <= end:
                return at
        return None

    def _answer(
        self, document: str, instance_id: str, parameters: Mapping[str, str]
    ) -> tuple[float, dict[str, Any]]:
        """How long it takes and what it prints; an empty result where the host has no package."""
        now, took = self._time.seconds, self._random.uniform(1, SLOWEST.get(document, 8.0))
        envelope = {"version": 1, "command": document, "ok": True}
        if document == "report_work":
            asked = parameters["Command"]
            works = any(one["document"] == asked and self._runs(one, now) for one in self._of(instance_id))
            return took, {**envelope, "at_work": works}
        if document != "install_host_package" and self._account.on_host(instance_id, "package", now) is None:
            return took, {}
        for key in ((document, instance_id), (document, None)):
            if self.scripts.get(key):
                return took, {**envelope, **HEALTHY[document], **self.scripts[key].pop(0)}
        if document in NEEDS_STORAGE and self._account.is_so(instance_id, "lost_volume", now):
            return took, {**envelope, "ok": False, "error": "DeviceMissing", "message": "a volume is gone"}
        database = self._account.is_so(instance_id, "database", now)
        if document in NEEDS_DATABASE and not database:
            return took, {**envelope, "ok": False, "error": "ServerDown", "message": "no server answers"}
        result = own(HEALTHY[document], instance_id)
        if document == "report_prewarm":
            result = self._engine_report(instance_id, now)
        if document == "verify_storage":
            result["mounted"] = database
        if document == "wait_for_catch_up":
            began = self._account.on_host(instance_id, "replication", now)
            started = now if began is None else began[0]
            applied = (now - started) * (self.pace.apply_speed - 1)
            took += max(0.0, self._behind(instance_id, started) - applied) / (self.pace.apply_speed - 1)
        return took, {**envelope, **result}

    def _behind(self, instance_id: str, started: float) -> float:
        """Seconds of log that the replica lacked when it began to follow its source."""
        if not self.behind_since_snapshot:
            return self.pace.behind_seconds
        held = (
            one
            for one in self._account.volumes.values()
            if one["snapshot"] is not None
            and (attachment_at(one, started) or {}).get("instance") == instance_id
        )
        taken = [self._account.snapshots[one["snapshot"]]["started"] for one in held]
        return started - min(taken) if taken else self.pace.behind_seconds

    def _engine_report(self, instance_id: str, now: float) -> dict[str, Any]:
        began = self._account.on_host(instance_id, "prewarm", now)
        if began is None or not began[1]:
            return {"state": "dead", "message": "no engine was started for this run"}
        return prewarm_report(self.pace, now - began[0])

    def _effects(self, record: Record) -> None:
        host, done = record["instance"], record["done"]
        happens = {
            "install_host_package": ("package", True),
            "start_prewarm": ("prewarm", True),
            "verify_storage": ("verified", True),
            "start_database": ("database", True),
            "stop_database": ("database", False),
            "start_replication": ("replication", True),
            "wait_for_catch_up": ("caught_up", True),
        }.get(record["document"])
        if happens is not None and happens[0] == "prewarm" and self._account.is_so(host, "prewarm", done):
            return
        if state_at(self._account.instances[host], self._time.seconds) != "running":
            return
        if happens is not None:
            self._account.happened(host, done, *happens)
        if happens is not None and happens[0] == "replication":
            self._account.happened(host, done, "follows", record["parameters"]["SourceHost"])


def require_parameters(document: str, parameters: Mapping[str, str]) -> None:
    """Raises AwsCallRejected for parameters that the document lacks, misses, or whose pattern does not match."""
    declared = _content(document)["parameters"]
    missing = {name for name, one in declared.items() if "default" not in one} - set(parameters)
    odd = [
        name
        for name, given in parameters.items()
        if name not in declared or not re.match(declared[name].get("allowedPattern", ""), given)
    ]
    if missing or odd:
        raise AwsCallRejected(f"ssm:SendCommand: InvalidParameters: {document}: {sorted(missing)} {odd}")
