"""IdentifyStoppedRun: which run a stopped execution left half done."""

from __future__ import annotations

from typing import Any

from peaker.domain.decoding import parsed_json
from peaker.domain.runs.execution_input import ExecutionInput, parse_execution_input
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import StoppedExecution, Summary, is_run_of, run_id
from peaker.ports import Ports
from peaker_contract.errors import InvalidRequest, LedgerInconsistent, NothingToUndo


class StoppedRun(Summary):
    """The run's identity. `recorded` is true when its receipt is written and only its lease is left."""

    run_id: str
    cluster: str
    operation: str
    request: ExecutionInput
    recorded: bool
    failure: Failure


def identify_stopped_run(ports: Ports, stopped: StoppedExecution) -> StoppedRun:
    """The run that holds its cluster's lease and was begun by this execution; raises NothingToUndo without one.

    An execution that builds several replicas begins a run for each, and only the last of them holds the lease.
    """
    try:
        request = parse_execution_input(_given(stopped))
    except InvalidRequest as wrong:
        raise NothingToUndo(f"{stopped.execution_name} was stopped before its input was refused") from wrong
    first = run_id(stopped.operation, request.cluster, stopped.started_at, stopped.execution_name)
    lease = ports.lease.current(request.cluster, ports.clock.now())
    if lease is None or not is_run_of(lease.run_id, first):
        raise NothingToUndo(f"{stopped.execution_name} ({first}) holds no lease of {request.cluster}")
    return StoppedRun(
        text=f"{lease.run_id} was left by {stopped.execution_name}, {stopped.status}",
        run_id=lease.run_id,
        cluster=request.cluster,
        operation=stopped.operation,
        request=request,
        recorded=_is_recorded(ports, lease.run_id),
        failure=Failure(
            failed_step="Execution",
            error=f"Execution{stopped.status.title().replace('_', '')}",
            cause=stopped.cause
            or f"{stopped.execution_name} ended as {stopped.status}, its lease still held",
        ),
    )


def _given(stopped: StoppedExecution) -> Any:
    """Whoever starts an execution may give it any text, which then began no run."""
    try:
        return parsed_json(stopped.input)
    except ValueError as error:
        raise InvalidRequest(f"input: no JSON: {error}") from error


def _is_recorded(ports: Ports, run: str) -> bool:
    """A run that was stopped before it was opened in the ledger has no receipt."""
    try:
        return ports.ledger.run(run).outcome != "running"
    except LedgerInconsistent:
        return False
