"""IdentifyStoppedRun: which run a stopped execution left half done."""

from __future__ import annotations

from peaker.domain.decoding import parsed_json
from peaker.domain.reading import Unknown
from peaker.domain.runs.execution_input import ExecutionInput, parse_execution_input
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.runs.run import StoppedExecution, Summary, is_run_of, run_id
from peaker.ports.bundle import Ports
from peaker.usecases.run.run_memory import opened_run
from peaker_contract.errors import InvalidRequest, NothingToUndo, Throttled


class StoppedRun(Summary):
    """The run's identity. `recorded` is true when its receipt is written and only its lease is left."""

    run_id: str
    cluster: str
    operation: str
    request: ExecutionInput
    recorded: bool
    failure: Failure


def identify_stopped_run(ports: Ports, stopped: StoppedExecution) -> StoppedRun:
    """The run that holds its cluster's lease and was begun by this execution; raises NothingToUndo without one, and
    where Step Functions says that the execution runs: an event may be made by hand or come late, after a redrive.

    An execution that builds several replicas begins a run for each, and only the last of them holds the lease. An
    event without the input is identified by the execution's name and start, which make the run's id.
    """
    given = _given(stopped)
    clusters = ports.clusters.names() if given is None else [given.cluster]
    lease = next((one for name in clusters if (one := _held(ports, stopped, name)) is not None), None)
    if lease is None:
        raise NothingToUndo(
            f"{stopped.execution_name} holds no lease of {', '.join(clusters) or 'any cluster'}"
        )
    _require_ended(ports, lease)
    run = opened_run(ports, lease.run_id)
    return StoppedRun(
        text=f"{lease.run_id} was left by {stopped.execution_name}, {stopped.status}",
        run_id=lease.run_id,
        cluster=lease.cluster,
        operation=stopped.operation,
        request=given or (ExecutionInput(cluster=lease.cluster) if run is None else run.request),
        recorded=run is not None and run.outcome != "running",
        failure=Failure(
            failed_step="Execution",
            error=f"Execution{stopped.status.title().replace('_', '')}",
            cause=stopped.cause or _without_cause(stopped),
        ),
    )


def _without_cause(stopped: StoppedExecution) -> str:
    """Who stopped it in the console, Step Functions does not tell."""
    who = "; CloudTrail's StopExecution names the caller" if stopped.status == "ABORTED" else ""
    return f"{stopped.execution_name} ended as {stopped.status}, its lease still held{who}"


def _require_ended(ports: Ports, lease: LeaseRow) -> None:
    """Raises NothingToUndo where the execution is at work, Throttled where Step Functions does not list it yet."""
    execution = ports.executions.that_began(lease)
    if isinstance(execution, Unknown):
        raise Throttled(f"{lease.run_id}: {execution.why}; what is unknown is held (I4)")
    if not execution.ended:
        raise NothingToUndo(f"{lease.run_id}: its execution is {execution.status}, so nobody left it")


def _given(stopped: StoppedExecution) -> ExecutionInput | None:
    """Reads the event's input; None where it has none. A person may start an execution with any text, which
    then began no run.
    """
    if stopped.input is None:
        return None
    try:
        return parse_execution_input(parsed_json(stopped.input))
    except (ValueError, InvalidRequest) as wrong:
        raise NothingToUndo(f"{stopped.execution_name} was stopped before its input was refused") from wrong


def _held(ports: Ports, stopped: StoppedExecution, cluster: str) -> LeaseRow | None:
    """The cluster's lease, where a run of this execution has it."""
    first = run_id(stopped.operation, cluster, stopped.started_at, stopped.execution_name)
    lease = ports.lease.current(cluster, ports.clock.now())
    return lease if lease is not None and is_run_of(lease.run_id, first) else None
