"""Runs: their ids, the execution input, and what each step is given."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from peaker.domain.errors import InvalidRequest
from peaker.domain.instants import require_utc

Operation = Literal["scale_out", "scale_in"]
Mode = Literal["act", "plan"]

# The prewarm child's execution name is the run id and a suffix; execution names end at 80 characters.
RUN_ID_LIMIT = 60
_CLUSTER_IN_RUN_ID = 24


class Contract(BaseModel):
    """Base of what crosses a boundary of ours: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Trigger(Contract):
    """What started the run. `at` is when the alarm went off (ISO 8601)."""

    kind: Literal["alarm", "schedule", "manual"] = "manual"
    alarm: str | None = None
    reason: str | None = None
    at: str | None = None


class ExecutionInput(Contract):
    """What a person or a rule gives to the state machine."""

    cluster: str = Field(min_length=1)
    mode: Mode = "act"
    count: Annotated[int, Field(ge=1, strict=True)] = 1
    replica: Annotated[str, Field(pattern=r"^i-[0-9a-f]{8,17}$")] | None = None
    reason: str | None = Field(default=None, max_length=256)
    trigger: Trigger = Trigger()


class ExecutionRequest(Contract):
    """The execution as ValidateRequest gets it: which operation, whose input, and the execution's own identity."""

    operation: Operation
    execution_name: str
    started_at: datetime
    input: Any = None


class StoppedExecution(BaseModel):
    """An execution that was stopped from outside, as EventBridge tells of it (detail of the status change)."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    execution_name: str = Field(alias="name")
    state_machine_arn: str = Field(alias="stateMachineArn")
    started_at: datetime = Field(alias="startDate")
    status: Literal["ABORTED", "TIMED_OUT"]
    input: str
    cause: str | None = None

    @property
    def operation(self) -> Operation:
        """The workflow; state machines are named `peaker-<environment>-<operation>`."""
        return "scale_in" if self.state_machine_arn.endswith("-scale_in") else "scale_out"


class StepInput(Contract):
    """What every step is given. No fencing token means that no lease is held: the step may then write nothing."""

    run_id: str
    cluster: str
    operation: Operation
    step: str
    fencing_token: int | None = None


class RequestedStep(StepInput):
    """AcquireLease: the request itself comes along."""

    request: ExecutionInput
    fence: bool = False


class HostStep(StepInput):
    """A step that runs on the donor or on the new replica."""

    host: Literal["donor", "replica"]


class Failure(Contract):
    """What went wrong, as the workflow caught it: the state, the error's class name and its cause."""

    failed_step: str
    error: str
    cause: str = ""

    def innermost(self) -> Failure:
        """The failure as a person reads it: its own step and message, out of the wrappings of the workflow.

        A Lambda function's cause is JSON with errorMessage; a branch's is a failure of its own; a child
        workflow's is the description of its execution with Error and Cause.
        """
        document = _json_object(self.cause)
        if "failed_step" in document:
            return Failure.model_validate(document).innermost()
        if "errorMessage" in document:
            return self.model_copy(update={"cause": str(document["errorMessage"])})
        if "Error" in document and "Cause" in document:
            step, _, cause = str(document["Cause"]).partition(": ")
            error = str(document["Error"])
            inner = Failure(failed_step=f"{self.failed_step}/{step}", error=error, cause=cause or step)
            return inner.innermost()
        return self

    @property
    def sentence(self) -> str:
        """`VerifyStorage: StorageNotWarm: ...`"""
        return f"{self.failed_step}: {self.error}: {self.cause}"


class FailedStep(StepInput):
    """A compensation: what failed comes along."""

    failure: Failure


class RecordStep(StepInput):
    """RecordReceipt: how the run ended, and what failed if something did."""

    outcome: Literal["succeeded", "rolled_back", "rolled_forward", "undo_incomplete", "nothing_to_do"]
    failure: Failure | None = None


class SelectStep(StepInput):
    """SelectIdleReplica: with a lease in act mode, without one in plan mode; `replica` is the one asked for."""

    replica: str | None = None


class PlanStep(StepInput):
    """PlanScaleOut: with a lease in act mode, without one in plan mode."""

    count: int = 1
    trigger: Trigger = Trigger()


class Measurement(BaseModel):
    """Values of one moment, by the names of telemetry's metrics."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    values: dict[str, float]


class Summary(BaseModel):
    """What a step returns: a sentence for the console; its numbers go to the ledger and the receipt.

    `measured` becomes metrics, each at its own time.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    numbers: dict[str, Any] = {}
    measured: tuple[Measurement, ...] = Field(default=(), exclude=True)


def run_id(operation: Operation, cluster: str, started_at: datetime, execution_name: str) -> str:
    """The same for every retry of one execution: `scale-out-orders-20261121T014000-9f3a`."""
    digest = hashlib.sha256(execution_name.encode()).hexdigest()[:4]
    start = require_utc(started_at).strftime("%Y%m%dT%H%M%S")
    return f"{operation.replace('_', '-')}-{cluster[:_CLUSTER_IN_RUN_ID]}-{start}-{digest}"


def client_token(run: str, *parts: str) -> str:
    """A ClientToken of 64 ASCII characters, the same for every retry of one step (I10)."""
    return hashlib.sha256("/".join((run, *parts)).encode()).hexdigest()


def parse_execution_input(given: Any) -> ExecutionInput:
    """The typed input. Raises InvalidRequest that names each field, what is wrong and what is allowed."""
    try:
        return ExecutionInput.model_validate(given)
    except ValidationError as error:
        problems = "; ".join(_problem(item) for item in error.errors())
        raise InvalidRequest(
            f"{problems}. Allowed fields: {', '.join(ExecutionInput.model_fields)}"
        ) from error


def _json_object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _problem(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"]) or "input"
    if item["type"] == "extra_forbidden":
        return f"{field}: no such field, remove it"
    return f"{field}: {item['msg'][0].lower()}{item['msg'][1:]} (given {item['input']!r:.60})"
