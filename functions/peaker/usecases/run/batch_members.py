"""The members of a batch as the ledger has them, and what they share: donor, source and snapshot set."""

from __future__ import annotations

from typing import Any

from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.ledger import Donor, PartT, RunRow
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker_contract.errors import LedgerInconsistent, NoDonor
from peaker_contract.names import ROLE_TAG


def shared(ports: Ports, step: StepInput, kind: type[PartT]) -> PartT:
    """The run's own part, else the batch's. Raises LedgerInconsistent when no step has settled it."""
    own = ports.ledger.run(step.run_id).part(kind)
    return own or ports.ledger.run(step.shared_run).required(kind, step.step)


def handed_to_member(ports: Ports, step: StepInput, run_id: str) -> dict[str, Any]:
    """Returns the input of a member's execution: its rows and its token, under the lease of the batch."""
    return {
        "run_id": run_id,
        "cluster": step.cluster,
        "operation": step.operation,
        "fencing_token": step.fencing_token,
        "batch": step.run_id,
        "member_token": ports.ledger.member_token(run_id),
    }


def member_rows(ports: Ports, batch: Batch) -> dict[str, RunRow]:
    """The rows that there are, in the order of the members."""
    found = {}
    for run_id in batch.members:
        try:
            found[run_id] = ports.ledger.run(run_id)
        except LedgerInconsistent:
            continue
    return found


def members_of(ports: Ports, batch: Batch) -> dict[str, Member]:
    """Returns the members by run id, in the order of their numbers."""
    rows = member_rows(ports, batch)
    return {run_id: found for run_id, row in rows.items() if (found := row.part(Member)) is not None}


def require_donor(ports: Ports, step: StepInput) -> Donor:
    """The run's donor, or for a member its batch's, asked for again right before it is used.

    Raises NoDonor where a failover made it the source.
    """
    donor = shared(ports, step, Donor)
    role = ports.compute.instance(donor.instance_id).tags.get(ROLE_TAG)
    if role == "source":
        raise NoDonor(f"{step.cluster}: {donor.instance_id} became the source since it was chosen (I2)")
    return donor
