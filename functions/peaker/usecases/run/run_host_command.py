"""Run a document on a host once per step, over any number of calls.

SendCommand has no ClientToken. The intent is in the ledger before it is sent, and the command carries run, step
and number as its comment: a call that finds an intent without a command id looks for that comment first (I10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from peaker.domain.host_results import failure_text, last_json_line, parse_success
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, Numbers
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState, of_kind
from peaker.domain.runs.run import StepInput
from peaker.ports import Ports
from peaker.usecases.run.held_lease import holder_of
from peaker_contract.errors import BinlogsGone, HostCommandFailed, HostCommandRunning

# A command of a lost answer shows in ListCommands within seconds; documents may run twice, so this is enough.
RESEND_AFTER = timedelta(minutes=1)


def run_host_command(
    ports: Ports,
    step: StepInput,
    document: str,
    instance_id: str,
    parameters: Mapping[str, str] | Callable[[], Mapping[str, str]],
    *,
    repeat: bool = False,
) -> Numbers:
    """The result of the document on the host.

    Raises HostCommandRunning until it has ended and HostCommandFailed (BinlogsGone for
    a source that has purged what the replica lacks) when it did not succeed. With `repeat` a
    command that has ended is followed by a new one on the next call; without, its result is given again.
    Parameters that cost something to find are given as a function, called only when a command is sent.
    """
    row = _current_row(ports, step, document, instance_id, repeat)
    if row.resource_id is None:
        row = _send(ports, step, row, parameters() if callable(parameters) else parameters)
    assert row.resource_id is not None
    outcome = ports.commands.outcome(row.resource_id, instance_id)
    if not outcome.status.is_over:
        raise HostCommandRunning(f"{document} on {instance_id}: {outcome.status.value} ({row.resource_id})")
    if row.is_open:
        ports.ledger.mark(holder_of(step), step.run_id, row, ResourceState.KEPT)
    return _result(document, instance_id, outcome)


def command_comment(run_id: str, row_name: str) -> str:
    """The comment by which a command is found again; at most 100 characters (ssm:SendCommand)."""
    return f"{run_id} {row_name}"[:100]


def sent_command(ports: Ports, run_id: str, row: ResourceRow) -> str | None:
    """The id of the row's command, looked for by its comment where the answer was lost; None when none shows."""
    return row.resource_id or ports.commands.find(
        row.details["instance_id"], command_comment(run_id, row.name), row.intended_at
    )


def _current_row(ports: Ports, step: StepInput, document: str, instance_id: str, repeat: bool) -> ResourceRow:
    earlier = [
        row
        for row in of_kind(ports.ledger.resources(step.run_id), ResourceKind.COMMAND)
        if row.step == step.step and row.details.get("instance_id") == instance_id
    ]
    if earlier and (earlier[-1].is_open or not repeat):
        return _found_again(ports, step, earlier[-1])
    return ports.ledger.intend(
        holder_of(step),
        ResourceKind.COMMAND,
        f"{step.step}#{len(earlier) + 1}",
        step.step,
        ports.clock.now(),
        {"document": document, "instance_id": instance_id},
    )


def _found_again(ports: Ports, step: StepInput, row: ResourceRow) -> ResourceRow:
    if row.resource_id is not None:
        return row
    command_id = sent_command(ports, step.run_id, row)
    if command_id is not None:
        return _made(ports, step, row, command_id, ports.clock.now())
    if ports.clock.now() - row.intended_at < RESEND_AFTER:
        raise HostCommandRunning(f"{row.name}: an earlier call's answer was lost; its command may still show")
    return row


def _send(ports: Ports, step: StepInput, row: ResourceRow, parameters: Mapping[str, str]) -> ResourceRow:
    ports.ledger.require_lease(holder_of(step))
    command_id = ports.commands.send(
        row.details["document"],
        row.details["instance_id"],
        parameters,
        command_comment(step.run_id, row.name),
    )
    return _made(ports, step, row, command_id, ports.clock.now())


def _made(ports: Ports, step: StepInput, row: ResourceRow, command_id: str, at: datetime) -> ResourceRow:
    return ports.ledger.made(holder_of(step), row, command_id, at)


def _result(document: str, instance_id: str, outcome: CommandOutcome) -> Numbers:
    if outcome.status is CommandStatus.SUCCESS:
        return parse_success(document, outcome.stdout)
    said = last_json_line(outcome.stdout)
    if said is not None and said.get("error") == BinlogsGone.__name__:
        raise BinlogsGone(failure_text(document, said))
    otherwise = f"{outcome.status_details or outcome.status.value} on {instance_id}: {outcome.stderr[-400:]}"
    raise HostCommandFailed(failure_text(document, said, otherwise.strip()))
