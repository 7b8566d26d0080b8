"""ValidateRequest: the input is right and the cluster exists, before anything is written or made."""

from __future__ import annotations

from peaker.domain.errors import InvalidRequest
from peaker.domain.run import ExecutionInput, ExecutionRequest, Mode, Summary, parse_execution_input, run_id
from peaker.ports import Ports


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
    """Raises InvalidRequest (naming the field) and UnknownCluster (naming those that exist)."""
    request = parse_execution_input(given.input)
    settings = ports.clusters.settings(request.cluster)
    if request.count > settings.max_replicas:
        raise InvalidRequest(
            f"count: {request.count} exceeds max_replicas of {settings.name} ({settings.max_replicas}); ask for fewer"
        )
    if request.replica is not None and given.operation == "scale_out":
        raise InvalidRequest("replica: only scale_in takes it; remove it")
    if request.count != 1 and given.operation == "scale_in":
        raise InvalidRequest("count: scale_in retires one replica per execution; remove it")
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
