"""Ids of runs, and the input and the summary of each step."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from peaker.domain.decoding import Contract, Frozen
from peaker.domain.instants import require_utc
from peaker.domain.runs.execution_input import ExecutionInput, Operation, Trigger
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Holder
from peaker_contract.errors import LeaseLost

# The prewarm child's execution name is the run id and a suffix; execution names end at 80 characters.
RUN_ID_LIMIT = 64
_CLUSTER_IN_RUN_ID = 24


class ExecutionRequest(Contract):
    """The execution as ValidateRequest gets it: which operation, whose input, and the execution's own identity."""

    operation: Operation
    execution_name: str
    started_at: datetime
    input: Any = None


class StoppedExecution(Frozen):
    """An execution that ended, by the detail of EventBridge's status change event.

    `input` is None where input and output together were too long for the event (`inputDetails.included` is false).
    """

    model_config = ConfigDict(populate_by_name=True)

    execution_name: str = Field(alias="name")
    state_machine_arn: str = Field(alias="stateMachineArn")
    started_at: datetime = Field(alias="startDate")
    status: Literal["ABORTED", "TIMED_OUT", "FAILED", "SUCCEEDED"]
    input: str | None = None
    cause: str | None = None

    @property
    def operation(self) -> Operation:
        """The workflow; state machines are named `peaker-<environment>-<operation>`."""
        return "scale_in" if self.state_machine_arn.endswith("-scale_in") else "scale_out"


class StepInput(Contract):
    """Every step gets this input. No fencing token means that no lease is held: the step may then write
    nothing.

    `batch` is given to a member's steps: the run that holds the lease, under which the member works. `member_token` is
    the member's own: once it was fenced, nothing that is called with an older one can write.
    """

    run_id: str
    cluster: str
    operation: Operation
    step: str
    fencing_token: int | None = None
    batch: str | None = None
    member_token: int | None = None

    @property
    def holder(self) -> Holder:
        """Proof of the lease. Raises LeaseLost for a step that was started without one."""
        if self.fencing_token is None:
            raise LeaseLost(f"{self.step} of {self.run_id} was called without a fencing token")
        return Holder(self.cluster, self.run_id, self.fencing_token, self.batch, self.member_token)

    @property
    def shared_run(self) -> str:
        """The run whose rows have what all members share: the donor and its snapshot set."""
        return self.batch or self.run_id


class RequestedStep(StepInput):
    """AcquireLease gets the request itself.

    `fence` asks for a new token; with `unfinished_only` a run that has ended meanwhile gets none, as one has whose
    stopped execution somebody redrives.
    """

    request: ExecutionInput
    fence: bool = False
    unfinished_only: bool = False


class PrewarmStep(StepInput):
    """ReportPrewarm gets the blocks that the workflow waits for, those of a database's start or all that serving needs,
    and how often the workflow has started the engine.
    """

    until: Literal["database", "serving"]
    starts: int = Field(ge=0)


class HostStep(StepInput):
    """A step that runs on the donor or on the new replica."""

    host: Literal["donor", "replica"]


class FailedStep(StepInput):
    """A compensation gets the failure that it undoes."""

    failure: Failure


Outcome = Literal[
    "succeeded",
    "partly",
    "rolled_back",
    "rolled_forward",
    "undo_incomplete",
    "refused",
    "nothing_to_do",
    "called_off",
]


class RecordStep(StepInput):
    """RecordReceipt gets the outcome, the failure or refusal if there was one, and the failure of its undo."""

    outcome: Outcome
    failure: Failure | None = None
    undo: Failure | None = None


class SelectStep(StepInput):
    """SelectIdleReplicas: with a lease in act mode, without one in plan mode; `replica` is the one asked for.

    `count` is how many a person asks for; an automatic start takes all that are to spare.
    """

    replica: str | None = None
    count: int = 1
    trigger: Trigger = Trigger()


class SurplusStep(StepInput):
    """CheckSurplus gets the trigger of the execution."""

    trigger: Trigger = Trigger()


class PlanStep(StepInput):
    """PlanScaleOut: with a lease in act mode, without one in plan mode.

    `above_limits` is a person's word that the run may pass max_replicas and the budget, `reason` why.
    """

    count: int = 1
    trigger: Trigger = Trigger()
    ready_by: datetime | None = None
    above_limits: bool = False
    reason: str | None = None


class RoundStep(StepInput):
    """NextMembers gets the round of the batch, 0 for the first."""

    round: int


class Summary(Frozen):
    """A step returns a summary: a sentence for the console; its numbers go to the ledger and the receipt."""

    text: str
    numbers: dict[str, Any] = Field(default_factory=dict)


def run_id(operation: Operation, cluster: str, started_at: datetime, execution_name: str) -> str:
    """The same for every retry of one execution: `scale-out-orders-20261121T014000-mzxw6ytboi`."""
    # 50 bits in ten characters.
    digest = b32encode(hashlib.sha256(execution_name.encode()).digest())[:10].decode().lower()
    start = require_utc(started_at).strftime("%Y%m%dT%H%M%S")
    return f"{operation.replace('_', '-')}-{cluster[:_CLUSTER_IN_RUN_ID]}-{start}-{digest}"


def is_run_of(run: str, first: str) -> bool:
    """Tells whether an execution whose run is `first` began this one: that run, or a member of its batch."""
    return run == first or run.startswith(f"{first}-")


def client_token(run: str, *parts: str) -> str:
    """A ClientToken of 64 ASCII characters, the same for every retry of one step (I10)."""
    return hashlib.sha256("/".join((run, *parts)).encode()).hexdigest()
