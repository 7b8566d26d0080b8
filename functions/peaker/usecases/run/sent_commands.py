"""Host commands in the ledger: sent with run, step and number as their comment, found again by it.

Those that change the host carry the lease's fencing token and a latest time to begin; the host refuses older ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta

from peaker.domain.host_results import FENCED_DOCUMENTS
from peaker.domain.runs.ledger import Holder, ResourceRow
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports

# A command of a lost answer shows in ListCommands within seconds; documents may run twice, so this is enough.
RESEND_AFTER = timedelta(minutes=1)
# Systems Manager waits ten minutes for the agent; the clocks of a function and a host may differ by five.
BEGINS_WITHIN = timedelta(minutes=15)
_LONGEST_COMMENT = 100


def command_comment(run_id: str, row_name: str) -> str:
    """The comment by which a command is found again; at most 100 characters (ssm:SendCommand).

    The end of a longer one is its hash: the names of two commands of a run may differ in their last characters alone.
    """
    whole = f"{run_id} {row_name}"
    if len(whole) <= _LONGEST_COMMENT:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    return f"{whole[: _LONGEST_COMMENT - len(digest) - 1]} {digest}"


def sent_command(ports: Ports, run_id: str, row: ResourceRow) -> str | None:
    """The id of the row's command, looked for by its comment where the answer was lost; None when none shows."""
    return row.resource_id or ports.commands.find(
        row.details["instance_id"], command_comment(run_id, row.name), row.intended_at
    )


def send_command(
    ports: Ports, step: StepInput, row: ResourceRow, parameters: Mapping[str, str]
) -> ResourceRow:
    """Send the command of the row; returns the row with its id. Each sending has a latest time of its own."""
    holder, document = step.holder, row.details["document"]
    ports.ledger.require_lease(holder)
    fence = fence_parameters(ports, holder) if document in FENCED_DOCUMENTS else {}
    command_id = ports.commands.send(
        document, row.details["instance_id"], {**parameters, **fence}, command_comment(step.run_id, row.name)
    )
    return ports.ledger.made(holder, row, command_id, ports.clock.now())


def fence_parameters(ports: Ports, holder: Holder) -> dict[str, str]:
    """Returns the fencing token, which only grows within a cluster's ledger, and the latest time to begin."""
    not_after = ports.clock.now() + BEGINS_WITHIN
    token = f"{holder.fencing_token}.{holder.member_token or 0}"
    return {
        "FencingToken": f"{ports.environment}/{holder.cluster}:{token}",
        "NotAfter": str(int(not_after.timestamp())),
    }
