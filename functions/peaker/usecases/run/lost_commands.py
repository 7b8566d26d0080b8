"""This module decides whether a host works, or has worked, on a command that was sent to it.

Systems Manager does not say so. A command whose host restarted, or whose agent was updated, may stay InProgress until
its time-outs (aws/amazon-ssm-agent issue 430), end as killed, never be delivered, or be begun once more by the agent
(issue 169). So the host itself is asked, by a document that needs nothing of Peaker on it.
"""

from __future__ import annotations

import re
from datetime import timedelta

from peaker.domain.host_results import (
    NOT_BEGUN,
    NOT_OF_THE_PACKAGE,
    WorkReport,
    failure_text,
    last_json_line,
    parse_success,
    typed,
)
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import intend
from peaker.usecases.run.sent_commands import send_command
from peaker_contract.errors import AwsUnavailable, HostCommandFailed

REPORT_WORK = "report_work"
# For so long a command may be silent before its host is asked, and so long after an answer it is asked again.
SILENT_FOR = timedelta(minutes=2)
# The second look, after which nobody is at work: a command that has just ended shows its result by then.
LOOKED_AGAIN_AFTER = timedelta(seconds=30)
# A question that is not answered by then is given up, and asked anew.
ANSWERED_WITHIN = timedelta(minutes=5)
# install_host_package ends itself within five minutes, may run twice, and its host cannot say whether it runs.
INSTALLED_WITHIN = timedelta(minutes=7)
# What Systems Manager says of a command that never came to its host, with and without spaces.
_NEVER_DELIVERED = frozenset({"deliverytimedout", "undeliverable"})
# The agent's words for a script that a signal ended.
_KILLED = re.compile(r"exit status (137|143)|signal: (killed|terminated)")


def was_lost(ports: Ports, step: StepInput, command: ResourceRow, outcome: CommandOutcome) -> str | None:
    """Returns the reason why the open `command` was lost; None while that is not certain."""
    if outcome.status.is_over:
        return _lost_at_its_end(command.details["document"], outcome)
    return lost_in_silence(ports, step, command)


def lost_in_silence(ports: Ports, step: StepInput, command: ResourceRow) -> str | None:
    """The same of a command that Systems Manager still calls InProgress."""
    if command.details["document"] in NOT_OF_THE_PACKAGE:
        silent = ports.clock.now() - (command.made_at or command.intended_at) >= INSTALLED_WITHIN
        return "its agent may have updated itself meanwhile" if silent else None
    asked = _questions(ports, step, command)
    if not asked or not asked[-1].is_open:
        since = asked[-1].intended_at if asked else command.made_at or command.intended_at
        absent_before = bool(asked) and asked[-1].state is ResourceState.UNDONE
        if ports.clock.now() - since < (LOOKED_AGAIN_AFTER if absent_before else SILENT_FOR):
            return None
        asked.append(_ask(ports, step, command, len(asked) + 1))
    question = asked[-1]
    at_work = _is_at_work(ports, step, question)
    if isinstance(at_work, Unknown):
        if ports.clock.now() - question.intended_at >= ANSWERED_WITHIN:
            _settle(ports, step, question, ResourceState.KEPT)
        return None
    _settle(ports, step, question, ResourceState.KEPT if at_work else ResourceState.UNDONE)
    before = asked[-2].state if len(asked) > 1 else None
    if at_work or before is not ResourceState.UNDONE:
        return None
    return f"{command.details['instance_id']} answers and does not work on it; it may have restarted"


def _lost_at_its_end(document: str, outcome: CommandOutcome) -> str | None:
    """Returns the reason where the command reached no host, came late or to a busy one, or was killed before it had
    said anything.
    """
    said = last_json_line(outcome.stdout)
    if said is not None and said.get("error") in NOT_BEGUN:
        return failure_text(document, said)
    if outcome.status is CommandStatus.SUCCESS or said is not None:
        return None
    if outcome.status_details.replace(" ", "").lower() in _NEVER_DELIVERED:
        return f"it was not delivered ({outcome.status_details})"
    killed = _KILLED.search(outcome.stderr)
    if outcome.status is CommandStatus.FAILED and (killed or not outcome.stderr.strip()):
        return f"it was killed ({killed.group(0) if killed else 'nothing came of it'})"
    return None


def _questions(ports: Ports, step: StepInput, command: ResourceRow) -> list[ResourceRow]:
    """Returns the questions in their order. Kept: at work, or no answer; undone: not at work."""
    rows = of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
    return [row for row in rows if row.details.get("asks_for") == command.name]


def _ask(ports: Ports, step: StepInput, command: ResourceRow, number: int) -> ResourceRow:
    details = {"document": REPORT_WORK, "instance_id": command.details["instance_id"]}
    details |= {"asks_for": command.name, "command": command.details["document"]}
    asking = step.model_copy(update={"step": f"{step.step}.{REPORT_WORK}"})
    return intend(ports, asking, ResourceKind.COMMAND, f"{command.name}.{REPORT_WORK}#{number}", details)


def _settle(ports: Ports, step: StepInput, question: ResourceRow, state: ResourceState) -> None:
    ports.ledger.mark(step.holder, step.run_id, question, state)


def _is_at_work(ports: Ports, step: StepInput, question: ResourceRow) -> bool | Unknown:
    """A question whose answer was lost is sent again: it changes nothing."""
    instance_id = str(question.details["instance_id"])
    if question.resource_id is None:
        try:
            question = send_command(ports, step, question, {"Command": str(question.details["command"])})
        except AwsUnavailable as silent:
            return Unknown(str(silent))
    assert question.resource_id is not None
    outcome = ports.commands.outcome(question.resource_id, instance_id)
    if outcome.status is not CommandStatus.SUCCESS:
        return Unknown(f"{REPORT_WORK} on {instance_id}: {outcome.status_details or outcome.status.value}")
    try:
        return typed(REPORT_WORK, WorkReport, parse_success(REPORT_WORK, outcome.stdout)).at_work
    except HostCommandFailed as odd:
        return Unknown(str(odd))
