"""Run a document on a host once per step, over any number of calls.

SendCommand has no ClientToken. The intent is in the ledger before it is sent, and the command carries run, step
and number as its comment: a call that finds an intent without a command id looks for that comment first (I10).
A command that was lost with its host, or came to it too late, is sent once more: every document may run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from peaker.domain.host_results import (
    FENCED,
    failure_text,
    last_json_line,
    parse_success,
    require_set_parameters,
)
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, Numbers
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.run.lost_commands import was_lost
from peaker.usecases.run.run_memory import intend
from peaker.usecases.run.sent_commands import RESEND_AFTER, send_command, sent_command
from peaker_contract.errors import BinlogsGone, HostCommandFailed, HostCommandRunning, ImageUnfit

# A host that loses one command after the other is not fit to serve.
LOST_AT_MOST = 3


def run_host_command(
    ports: Ports,
    step: StepInput,
    document: str,
    instance_id: str,
    parameters: Mapping[str, str] | Callable[[], Mapping[str, str]],
    *,
    repeat: bool = False,
) -> Numbers:
    """Returns the result of the document on the host.

    Raises HostCommandRunning until it has ended and HostCommandFailed (BinlogsGone for a source that has purged what
    the replica lacks, ImageUnfit for an image that lacks what the donor's copies need, AgentTooOld where the parameters
    never came to the shell, LeaseLost where another run has taken the host over) when it did not succeed. With `repeat`
    a command that has ended is followed by a new one on the next call; without, its result is given again.
    Parameters that cost something to find are given as a function, called only when a command is sent.
    """
    row = _current_row(ports, step, document, instance_id, repeat)
    if row.resource_id is None:
        row = send_command(ports, step, row, _values(parameters))
    assert row.resource_id is not None
    outcome = ports.commands.outcome(row.resource_id, instance_id)
    lost = was_lost(ports, step, row, outcome) if row.is_open else None
    if lost is not None:
        _send_again(ports, step, row, lost, parameters)
    if not outcome.status.is_over:
        raise HostCommandRunning(f"{document} on {instance_id}: {outcome.status.value} ({row.resource_id})")
    if row.is_open:
        ports.ledger.mark(step.holder, step.run_id, row, ResourceState.KEPT)
    said = last_json_line(outcome.stdout)
    if said is not None and said.get("error") == FENCED:
        ports.ledger.require_lease(step.holder)
    return _result(document, instance_id, outcome)


def _values(parameters: Mapping[str, str] | Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    return parameters() if callable(parameters) else parameters


def _send_again(
    ports: Ports,
    step: StepInput,
    row: ResourceRow,
    why: str,
    parameters: Mapping[str, str] | Callable[[], Mapping[str, str]],
) -> NoReturn:
    """Sends the command once more. Its row comes before the old one is settled: an interrupted call goes on with it."""
    assert row.resource_id is not None
    document, instance_id = row.details["document"], row.details["instance_id"]
    lost = int(row.details.get("lost_before", 0)) + 1
    if lost > LOST_AT_MOST:
        raise HostCommandFailed(f"{document} on {instance_id} was lost {lost} times, the last time: {why}")
    ports.commands.cancel(row.resource_id, instance_id)
    again = _intend(ports, step, f"{row.name.partition('~')[0]}~{lost}", document, instance_id, lost)
    ports.ledger.mark(step.holder, step.run_id, row, ResourceState.UNDONE)
    if again.resource_id is None:
        send_command(ports, step, again, _values(parameters))
    raise HostCommandRunning(
        f"{document} on {instance_id}: {row.name} is lost, {why}; sent again as {again.name}"
    )


def _current_row(ports: Ports, step: StepInput, document: str, instance_id: str, repeat: bool) -> ResourceRow:
    rows = _rows(ports, step)
    earlier = [row for row in rows if row.details.get("instance_id") == instance_id]
    if earlier and (earlier[-1].is_open or not repeat):
        return _found_again(ports, step, earlier[-1])
    now = ports.clock.now()
    row = _intend(ports, step, f"{step.step}#{len(rows) + 1}", document, instance_id)
    if row.details["instance_id"] != instance_id:
        raise HostCommandRunning(
            f"{row.name} is of another call of this step, of {row.details['instance_id']}"
        )
    # One of before is another call's, which may be about to send it.
    return row if row.intended_at >= now else _found_again(ports, step, row)


def _intend(
    ports: Ports, step: StepInput, name: str, document: str, instance_id: str, lost_before: int = 0
) -> ResourceRow:
    """Writes the row of one more command of the step.

    Its name follows from what the caller has judged: of two calls at once the later one gets the other's row.
    """
    details: dict[str, object] = {"document": document, "instance_id": instance_id}
    if lost_before:
        details["lost_before"] = lost_before
    return intend(ports, step, ResourceKind.COMMAND, name, details)


def _rows(ports: Ports, step: StepInput) -> list[ResourceRow]:
    """The step's commands, on whichever host: the peers of a ramp may change while a window runs."""
    rows = of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
    return [row for row in rows if row.step == step.step]


def _found_again(ports: Ports, step: StepInput, row: ResourceRow) -> ResourceRow:
    if row.resource_id is not None:
        return row
    command_id = sent_command(ports, step.run_id, row)
    if command_id is not None:
        return ports.ledger.made(step.holder, row, command_id, ports.clock.now())
    if ports.clock.now() - row.intended_at < RESEND_AFTER:
        raise HostCommandRunning(f"{row.name}: an earlier call's answer was lost; its command may still show")
    return row


def _result(document: str, instance_id: str, outcome: CommandOutcome) -> Numbers:
    if outcome.status is CommandStatus.SUCCESS:
        return parse_success(document, outcome.stdout)
    said = last_json_line(outcome.stdout)
    error = None if said is None else said.get("error")
    if error == BinlogsGone.__name__:
        raise BinlogsGone(failure_text(document, said))
    if error == ImageUnfit.__name__:
        raise ImageUnfit(failure_text(document, said))
    if said is None:
        require_set_parameters(document, instance_id, outcome.stderr)
    otherwise = f"{outcome.status_details or outcome.status.value} on {instance_id}: {outcome.stderr[-400:]}"
    raise HostCommandFailed(failure_text(document, said, otherwise.strip()))
