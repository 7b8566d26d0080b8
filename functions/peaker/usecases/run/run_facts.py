"""What earlier steps of a run settled, read back from the ledger."""

from __future__ import annotations

from typing import Any

from peaker.domain.runs.ledger import ResourceKind, ResourceRow, RunRow, find
from peaker.ports import Ports
from peaker_contract.errors import LedgerInconsistent


def fact(run: RunRow, name: str) -> dict[str, Any]:
    """One fact of the run. Raises LedgerInconsistent when no earlier step wrote it."""
    value = run.facts.get(name)
    if not isinstance(value, dict):
        raise LedgerInconsistent(f"{run.run_id}: the ledger has no {name}; an earlier step must write it")
    return value


def made_id(rows: list[ResourceRow], kind: ResourceKind, name: str) -> str:
    """The id of something that the run made. Raises LedgerInconsistent when it is not there."""
    row = find(rows, kind, name)
    if row is None or row.resource_id is None:
        raise LedgerInconsistent(f"the ledger has no id of {kind.value} {name}; an earlier step must make it")
    return row.resource_id


def builder_of(run: RunRow) -> str:
    """The run that built the replica which this run works on: an earlier one, or this run itself.

    Tags, ledger row and the host's records of a replica carry that run's id all its life.
    """
    replica = run.facts.get("replica") or {}
    return str(replica.get("run_id", run.run_id))


def host_id(ports: Ports, run_id: str, host: str) -> str:
    """The instance id of the run's `donor` or `replica`."""
    return str(fact(ports.ledger.run(run_id), host)["instance_id"])
