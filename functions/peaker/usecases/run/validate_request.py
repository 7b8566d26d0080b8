"""ValidateRequest: the input is right and the cluster exists, before anything is written or made."""

from __future__ import annotations

from collections.abc import Mapping

from peaker.domain.instants import from_iso, to_iso
from peaker.domain.report.event import input_refusal_event
from peaker.domain.runs.execution_input import ExecutionInput, Mode, as_lines, execution_input_problems, shown
from peaker.domain.runs.run import ExecutionRequest, Summary, run_id
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import InvalidRequest, UnknownCluster


class ValidatedRequest(Summary):
    """The run's identity and the request with its defaults filled in."""

    run_id: str
    cluster: str
    operation: str
    mode: Mode
    mode_reason: str
    automatic: bool
    request: ExecutionInput


def validate_request(ports: Ports, given: ExecutionRequest) -> ValidatedRequest:
    """Raises InvalidRequest (a line per wrong field) and UnknownCluster (naming those that exist)."""
    try:
        request, settings = _checked(ports, given)
    except (InvalidRequest, UnknownCluster) as refusal:
        ports.events.put(input_refusal_event(ports.environment, given, refusal))
        raise
    observing = settings.mode == "observe" and request.mode == "act"
    identity = run_id(given.operation, settings.name, given.started_at, given.execution_name)
    return ValidatedRequest(
        text=f"{given.operation} of {settings.name} as {identity}",
        run_id=identity,
        cluster=settings.name,
        operation=given.operation,
        mode="plan" if observing else request.mode,
        mode_reason=f"{settings.name} is in mode observe" if observing else "as requested",
        automatic=request.trigger.kind != "manual",
        request=request,
    )


def _checked(ports: Ports, given: ExecutionRequest) -> tuple[ExecutionInput, ClusterSettings]:
    problems = execution_input_problems(given.input, given.operation)
    known = isinstance(given.input, Mapping) and "cluster" in given.input and "cluster" not in problems
    if problems and not known:
        raise InvalidRequest(as_lines(problems))
    try:
        settings = ports.clusters.settings(given.input["cluster"])
    except UnknownCluster as unknown:
        if not problems:
            raise
        raise InvalidRequest("\n".join((str(unknown), as_lines(problems)))) from unknown
    count = given.input.get("count", 1)
    above_limits = given.input.get("above_limits", False)
    if "count" not in problems and not above_limits and count > settings.max_replicas:
        problems["count"] = (
            f"given {shown(count)}; allowed is a whole number from 1 to {settings.max_replicas}, "
            f"max_replicas of {settings.name}; above_limits with a reason passes it"
        )
    ready_by = given.input.get("ready_by")
    if ready_by is not None and "ready_by" not in problems and from_iso(ready_by) <= given.started_at:
        problems["ready_by"] = f"given {shown(ready_by)}; allowed is a time after {to_iso(given.started_at)}"
    if problems:
        raise InvalidRequest(as_lines(problems))
    return ExecutionInput.model_validate(given.input), settings
