"""The receipt of a run: its steps with their numbers, its resources, its outcome and its cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from peaker.domain.decoding import Frozen
from peaker.domain.document.disposal import Disposal
from peaker.domain.document.plan import Price, ScaleOutPlan, as_document
from peaker.domain.instants import from_iso, require_utc, seconds_between
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.report.plan_outcome import PlanOutcome, plan_outcome
from peaker.domain.runs.batch import Member
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, RunRow, StepRow
from peaker_contract.catalogue import serving_state

SCHEMA_VERSION = 1


class ReceiptStep(Frozen):
    """One step; `seconds` runs from its first start over all retries to its end."""

    step: str
    started_at: datetime
    seconds: float | None
    numbers: dict[str, Any]


class ReceiptResource(Frozen):
    """One resource that the run made or worked on, and its state."""

    kind: str
    name: str
    id: str | None
    state: str
    made_at: datetime | None


class ReceiptCost(Frozen):
    """USD by the price table. `so_far` covers the replica's hours up to the receipt; None where unknown."""

    replica_hours: float
    hourly: float | None
    once: float | None
    so_far: float | None
    per_month_if_kept: float | None
    source: str
    snapshots_hourly: float | None = 0.0
    snapshots_gib: float = 0.0


class ReceiptReplica(Frozen):
    """The replica of the run and where it stands at its end: in service, parked or retired (I7).

    A parked one can return until `parked_until`.
    """

    instance_id: str
    state: str
    built_by: str
    # Why a parked one cannot come back as it is, whenever its time is up.
    spent: str | None = None
    parked_until: datetime | None = None
    until_reason: str | None = None


class ReceiptParking(Frozen):
    """What a parked replica costs an hour against one in service, and the figures that decided."""

    action: str
    reason: str
    parked_hourly_usd: float | None
    serving_hourly_usd: float | None
    rebuild_usd: float | None
    return_seconds: float
    build_seconds: float


class ForecastLead(Frozen):
    """How early the alarm was: from the alarm to serving, and to the load's crossing of capacity if it came.

    A replica serves once it has its full share of the reads, as in the lead time that is predicted.
    """

    alarm: str | None
    alarm_at: datetime
    serving_at: datetime | None
    seconds_alarm_to_serving: float | None
    load_crossed_at: datetime | None
    seconds_alarm_to_crossing: float | None


class ReceiptMember(Frozen):
    """One replica of a batch: how it came, where it stands, and when it served; the failure as a sentence.

    `method` is None for one that was to go; `stands` is how the ledger's row of the replica has it: one that has gone
    is parked or retired. `outcome` is its plan's lead time against what came of it; None for one that
    never served.
    """

    run_id: str
    number: int
    method: str | None
    state: str
    instance_id: str | None
    serving_at: datetime | None
    failure: str | None
    outcome: PlanOutcome | None = None
    stands: str | None = None


class Receipt(Frozen):
    """One document per run, in the ledger."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    operation: str
    cluster: str
    outcome: str
    reason: str
    trigger: dict[str, Any]
    started_at: datetime
    finished_at: datetime
    seconds: float
    steps: tuple[ReceiptStep, ...]
    resources: tuple[ReceiptResource, ...]
    kept_nothing_else: bool
    cost: ReceiptCost | None
    forecast_lead: ForecastLead | None
    failure: dict[str, Any] | None
    notes: tuple[str, ...]
    plan: dict[str, Any]
    replica: ReceiptReplica | None = None
    parking: ReceiptParking | None = None
    members: tuple[ReceiptMember, ...] = ()


def assemble_receipt(
    run: RunRow,
    steps: Sequence[StepRow],
    resources: Sequence[ResourceRow],
    *,
    outcome: str,
    failure: Failure | None,
    price: Price | None,
    replica_since: datetime | None,
    load_crossed_at: datetime | None,
    notes: Sequence[str],
    now: datetime,
    replica: ReplicaRow | None = None,
    members: tuple[ReceiptMember, ...] = (),
) -> Receipt:
    """The receipt at `now`.

    `replica_since` is when the replica's instance was launched (by this run or, for a retirement, an earlier
    one); `load_crossed_at` when the load crossed the capacity that the fleet had without it, if known.
    """
    made = [row for row in resources if row.kind is not ResourceKind.COMMAND]
    plan = run.part(ScaleOutPlan)
    return Receipt(
        run_id=run.run_id,
        operation=run.operation,
        cluster=run.cluster,
        outcome=outcome,
        reason=_reason(run, failure),
        trigger=run.request.trigger.model_dump(mode="json"),
        started_at=run.started_at,
        finished_at=require_utc(now),
        seconds=round(seconds_between(run.started_at, now), 3),
        steps=tuple(_step(step) for step in steps),
        resources=tuple(_resource(row) for row in made),
        kept_nothing_else=not any(row.is_open for row in made),
        cost=_cost(price, replica_since, now),
        forecast_lead=_lead(run, _serving_at(steps, members), load_crossed_at),
        failure=None if failure is None else failure.model_dump(),
        notes=tuple(notes),
        plan={} if plan is None else as_document(plan),
        replica=None if replica is None else _replica(replica),
        parking=_parking(run),
        members=members,
    )


def receipt_member(
    run: RunRow, steps: Sequence[StepRow], of_batch: Sequence[StepRow], replica: ReplicaRow | None
) -> ReceiptMember | None:
    """None for a run that is no member of a batch."""
    member = run.part(Member)
    if member is None:
        return None
    served, method = _served(steps), member.method
    plan = run.part(ScaleOutPlan)
    return ReceiptMember(
        run_id=run.run_id,
        number=member.number,
        method=None if method is None else method.value,
        state=member.state,
        instance_id=None if replica is None else replica.instance_id,
        serving_at=served,
        outcome=None if method is None else plan_outcome(plan, method, steps, of_batch, served),
        failure=None if member.failure is None else member.failure.sentence,
        stands=None if replica is None else replica.state.value,
    )


def _serving_at(steps: Sequence[StepRow], members: Sequence[ReceiptMember]) -> datetime | None:
    """When the last of those that serve had its full share of the reads."""
    times = [one.serving_at for one in members if one.serving_at is not None]
    return max(times) if times else _served(steps)


def _served(steps: Sequence[StepRow]) -> datetime | None:
    return next((step.finished_at for step in steps if step.step == serving_state()), None)


def _replica(row: ReplicaRow) -> ReceiptReplica:
    stands = row.parking if row.state is ReplicaState.PARKED else None
    return ReceiptReplica(
        instance_id=row.instance_id,
        state=row.state.value,
        built_by=row.run_id,
        spent=None if stands is None else stands.spent,
        parked_until=None if stands is None else stands.until,
        until_reason=None if stands is None else stands.until_reason,
    )


def _parking(run: RunRow) -> ReceiptParking | None:
    """From the disposal that the run settled; None for a run that did not get so far."""
    disposal = run.part(Disposal)
    if disposal is None:
        return None
    figures = disposal.figures.model_dump(exclude={"catch_up_per_hour"})
    return ReceiptParking(action=disposal.action, reason=disposal.reason, **figures)


def _reason(run: RunRow, failure: Failure | None) -> str:
    if failure is not None:
        return f"{failure.failed_step}: {failure.error}"
    return run.request.why


def _step(row: StepRow) -> ReceiptStep:
    seconds = None if row.finished_at is None else seconds_between(row.started_at, row.finished_at)
    return ReceiptStep(
        step=row.step,
        started_at=row.started_at,
        seconds=None if seconds is None else round(seconds, 3),
        numbers=row.numbers,
    )


def _resource(row: ResourceRow) -> ReceiptResource:
    return ReceiptResource(
        kind=row.kind.value, name=row.name, id=row.resource_id, state=row.state.value, made_at=row.made_at
    )


def _cost(price: Price | None, since: datetime | None, now: datetime) -> ReceiptCost | None:
    if price is None:
        return None
    hours = 0.0 if since is None else max(0.0, seconds_between(since, now) / 3600)
    return ReceiptCost(
        replica_hours=round(hours, 4),
        hourly=price.hourly,
        once=price.once,
        so_far=_so_far(price, hours),
        per_month_if_kept=price.per_month_if_kept,
        source=price.source,
        snapshots_hourly=price.snapshots_hourly,
        snapshots_gib=price.snapshots_gib,
    )


def _so_far(price: Price, hours: float) -> float | None:
    if price.hourly is None or price.once is None:
        return None
    return round(price.hourly * hours + price.once, 4)


def _lead(run: RunRow, serving_at: datetime | None, crossed_at: datetime | None) -> ForecastLead | None:
    trigger = run.request.trigger
    if trigger.kind != "alarm" or trigger.at is None:
        return None
    alarm_at = from_iso(trigger.at)
    return ForecastLead(
        alarm=trigger.alarm,
        alarm_at=alarm_at,
        serving_at=serving_at,
        seconds_alarm_to_serving=_seconds(alarm_at, serving_at),
        load_crossed_at=crossed_at,
        seconds_alarm_to_crossing=_seconds(alarm_at, crossed_at),
    )


def _seconds(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else round(seconds_between(start, end), 3)
