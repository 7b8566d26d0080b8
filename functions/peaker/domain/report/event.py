"""The events that Peaker puts on EventBridge's default bus: what was decided, started, ended or refused. Pure.

docs/event.schema.json is this document's schema, for those who write rules and consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from peaker.domain.decoding import Contract
from peaker.domain.instants import to_iso
from peaker.domain.runs.execution_input import ExecutionInput, Operation, Trigger
from peaker.domain.runs.ledger import RunRow
from peaker.domain.runs.run import ExecutionRequest, StepInput

Kind = Literal["decision", "started", "ended", "refused"]
LONGEST_TITLE, LONGEST_TEXT = 200, 1000
# Chat programs take a mention or a link from these, and the texts of others are in an event.
_NO_MARKUP = str.maketrans({"<": "‹", ">": "›"})
_NOBODY_SAYS = "the console or an API call (CloudTrail's StartExecution names the caller)"


class Event(Contract):
    """One decision, start, end or refusal: `detail` of an event of source `peaker`."""

    schema_version: Literal[1] = 1
    id: str = Field(description="The same whenever this event is delivered: a consumer drops what it had.")
    thread: str = Field(description="What belongs together has the same: a run's start and its ends.")
    kind: Kind
    environment: str
    cluster: str | None = Field(description="None where a refused input names none.")
    at: datetime
    operation: Operation | None = Field(default=None, description="None for a decision.")
    run_id: str | None = None
    outcome: str = Field(
        description="Of a decision act, hold or alarm; of an end the receipt's; of a refusal the error; else running."
    )
    started_by: str | None = Field(
        default=None, description="The alarm, schedule or IAM principal that asked; None for a decision."
    )
    title: str = Field(max_length=LONGEST_TITLE)
    text: str = Field(max_length=LONGEST_TEXT, description="The reason, in one line.")
    next: str = Field(description="The line to type.")
    numbers: dict[str, float] = Field(default={}, description="The figures of a decision, or of a run.")

    @property
    def detail_type(self) -> str:
        """The event's `detail-type`: `Peaker Run Started`."""
        return "Peaker Decision" if self.kind == "decision" else f"Peaker Run {self.kind.title()}"


def started_by(trigger: Trigger) -> str:
    """Names the alarm, the schedule or the person that started a run, as far as its input says."""
    match trigger.kind:
        case "alarm":
            return f"the alarm {trigger.alarm or 'that its input does not name'}"
        case "schedule":
            return f"a schedule{f': {trigger.reason}' if trigger.reason else ''}"
        case _:
            return trigger.by or _NOBODY_SAYS


def decision_event(environment: str, report: Mapping[str, Any]) -> Event:
    """The event of a scheduled check, by its report."""
    cluster, action = str(report["cluster"]), str(report["action"])
    figures = ("required", "serving", "building", "shortage", "surplus", "load_now")
    numbers = {name: report[name] for name in figures if report[name] is not None}
    does = "nothing to do" if action == "none" else action
    return Event(
        id=f"{cluster}/decision/{report['at']}",
        thread=f"{cluster}/decision",
        kind="decision",
        environment=environment,
        cluster=cluster,
        at=report["at"],
        outcome=str(report["outcome"]),
        title=_line(f"{cluster}: {does}", LONGEST_TITLE),
        text=_line(str(report["reason"]), LONGEST_TEXT),
        next=f"peaker why {cluster} --env {environment}",
        numbers={**report["numbers"], **numbers},
    )


def start_event(environment: str, step: StepInput, request: ExecutionInput, at: datetime) -> Event:
    """The event of a run that has the lease."""
    return Event(
        **_of_run(environment, step.operation, step.cluster, request, "started"),
        id=f"{step.run_id}/started",
        thread=step.run_id,
        kind="started",
        at=at,
        run_id=step.run_id,
        outcome="running",
        text=_line(f"{request.why}, started by {started_by(request.trigger)}", LONGEST_TEXT),
        next=f"peaker watch {step.cluster} --env {environment}",
    )


def end_event(environment: str, run: RunRow, outcome: str, seconds: float, cause: str) -> Event:
    """The event of a run that has its receipt; a rule's refusal is one. `cause` is empty where all went well."""
    kind: Kind = "refused" if outcome == "refused" else "ended"
    said = kind if kind == "refused" else f"ended, {outcome.replace('_', ' ')}"
    return Event(
        **_of_run(environment, run.operation, run.cluster, run.request, said),
        id=f"{run.run_id}/ended/{outcome}",
        thread=run.run_id,
        kind=kind,
        at=run.finished_at or run.started_at + timedelta(seconds=seconds),
        run_id=run.run_id,
        outcome=outcome,
        text=_line(cause or run.request.why, LONGEST_TEXT),
        next=f"peaker receipt {run.run_id} --env {environment}",
        numbers={"seconds": seconds},
    )


def lease_refusal_event(
    environment: str, step: StepInput, request: ExecutionInput, refusal: Exception, at: datetime
) -> Event:
    """The event of a start that another run's lease refused: no run came of it."""
    return Event(
        **_of_run(environment, step.operation, step.cluster, request, "refused"),
        id=f"{step.run_id}/refused",
        thread=step.run_id,
        kind="refused",
        at=at,
        outcome=type(refusal).__name__,
        text=_line(str(refusal), LONGEST_TEXT),
        next=f"peaker status {step.cluster} --env {environment}",
    )


def input_refusal_event(environment: str, given: ExecutionRequest, refusal: Exception) -> Event:
    """The event of a start with a wrong input, which may name no cluster at all."""
    execution = f"{given.operation}/{given.execution_name}"
    return Event(
        id=f"{execution}/{to_iso(given.started_at)}/refused",
        thread=execution,
        kind="refused",
        environment=environment,
        cluster=None,
        at=given.started_at,
        operation=given.operation,
        outcome=type(refusal).__name__,
        title=f"{given.operation} refused: wrong input",
        text=_line(str(refusal), LONGEST_TEXT),
        next=f"peaker status --env {environment}",
    )


def _of_run(
    environment: str, operation: str, cluster: str, request: ExecutionInput, said: str
) -> dict[str, Any]:
    """The fields that all events of a run's execution have alike."""
    return {
        "environment": environment,
        "cluster": cluster,
        "operation": operation,
        "started_by": _line(started_by(request.trigger), LONGEST_TEXT),
        "title": _line(f"{cluster}: {operation} {said}", LONGEST_TITLE),
    }


def _line(text: str, longest: int) -> str:
    """One printable line without a chat program's markup, cut where it is too long."""
    words = " ".join(text.split()).translate(_NO_MARKUP)
    shown = "".join(letter for letter in words if letter.isprintable())
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
