"""RecordReceipt, RecordFailure: the run's outcome and its receipt; what is no longer needed goes."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.document.plan import Price, ScaleOutPlan, price_of_build
from peaker.domain.instants import seconds_between
from peaker.domain.replicas.fleet import ReplicaRow
from peaker.domain.report.event import end_event
from peaker.domain.report.receipt import Receipt, ReceiptMember, assemble_receipt, receipt_member
from peaker.domain.runs.batch import Batch, Member, state_after
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Holder, ResourceKind, ResourceState, RunReplica, RunRow
from peaker.domain.runs.run import RecordStep, Summary
from peaker.ports.bundle import Ports
from peaker.usecases.run.batch_members import member_rows, members_of
from peaker.usecases.run.kept_snapshots import delete_surplus_sets, keep_set
from peaker.usecases.run.run_memory import builder_of
from peaker.usecases.run.tear_down import TearDown, delete_snapshots
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected, InvalidRequest, NotOwned, UnknownCluster, with_remedy
from peaker_contract.steps import Method

_SERVES = frozenset({"succeeded", "partly", "rolled_forward"})
_SERVING_KINDS = {
    ResourceKind.INSTANCE,
    ResourceKind.VOLUME,
    ResourceKind.ATTACHMENT,
    ResourceKind.TARGET,
}


class Recorded(Summary):
    """The receipt in short, and the failure or refusal, if any, as a sentence for the end state."""

    outcome: str
    seconds: float
    error: str
    cause: str


def record_receipt(ports: Ports, step: RecordStep) -> Recorded:
    """Writes the receipt and tells the run's end. A member of a batch ends without a word: the batch's end names it."""
    recorded = write_receipt(ports, step)
    if step.batch is None:
        run = ports.ledger.run(step.run_id)
        ports.events.put(
            end_event(ports.environment, run, recorded.outcome, recorded.seconds, recorded.cause)
        )
    return recorded


def write_receipt(ports: Ports, step: RecordStep) -> Recorded:
    """A scale-out whose replica serves keeps its snapshot set for the next one; what is needless goes (I7).

    A snapshot that EC2 does not give away fails nothing: its set has a row, and later runs and `maintain_snapshots` try
    again. What a member of a batch made is kept or gone; the snapshot set is the batch's, and so is the row of its
    first member, which ends with the batch.
    """
    notes = _settle(ports, step)
    run = ports.ledger.run(step.run_id)
    failure = None if step.failure is None else step.failure.innermost()
    member = run.part(Member)
    if member is not None and (step.batch is not None or member.batch != run.run_id):
        # Of a member that is undone once more, the step that failed first is what a person looks for.
        failure = member.failure or failure
        ended = {"state": state_after(step.operation, step.outcome), "failure": failure}
        ports.ledger.settle(step.holder, member.model_copy(update=ended))
        if step.batch == step.run_id:
            seconds = seconds_between(run.started_at, ports.clock.now())
            return _recorded(f"member {member.number}: {step.outcome}", step, seconds, failure)
    undo = None if step.undo is None else step.undo.innermost()
    if undo is not None:
        notes.append(f"the undo is incomplete: {undo.sentence}")
    plan = run.part(ScaleOutPlan)
    if plan is not None and step.batch is None:
        notes += [f"passed a limit: {one}" for one in plan.lifted]
    receipt = _assemble(ports, step, run, failure, notes)
    ports.ledger.save_receipt(step.holder, receipt.model_dump(mode="json"))
    ports.ledger.close_run(step.holder, step.outcome, receipt.finished_at)
    text = f"{step.run_id}: {step.outcome} after {receipt.seconds:.0f} s"
    return _recorded(text, step, receipt.seconds, failure, undo)


def close_scheduled_run(
    ports: Ports, holder: Holder, outcome: str, notes: list[str], price: Price | None = None
) -> None:
    """Writes the receipt of a scheduled function's run, which made no replica, and closes the run."""
    now, run_id = ports.clock.now(), holder.run_id
    receipt = assemble_receipt(
        ports.ledger.run(run_id),
        ports.ledger.steps(run_id),
        ports.ledger.resources(run_id),
        outcome=outcome,
        failure=None,
        price=price,
        replica_since=None,
        load_crossed_at=None,
        notes=notes,
        now=now,
    )
    ports.ledger.save_receipt(holder, receipt.model_dump(mode="json"))
    ports.ledger.close_run(holder, outcome, now)


def _recorded(
    text: str, step: RecordStep, seconds: float, failure: Failure | None, undo: Failure | None = None
) -> Recorded:
    """Returns the summary. The error that needs a person is the undo's, else the run's."""
    shown = undo or failure
    cause = "" if failure is None else failure.sentence
    if failure is not None and undo is not None:
        cause = with_remedy(cause, f"Then {undo.sentence}")
    error = "" if shown is None else shown.error
    return Recorded(text=text, outcome=step.outcome, seconds=seconds, error=error, cause=cause)


def _settle(ports: Ports, step: RecordStep) -> list[str]:
    try:
        settings = ports.clusters.settings(step.cluster)
    except (UnknownCluster, InvalidRequest) as error:
        # A receipt is written also for a cluster that was taken out of the settings while its run was at work.
        return [f"the snapshots of {step.cluster} were not looked at: {error}"]
    notes = _settle_resources(ports, step, settings)
    if step.batch is not None:
        return notes
    unwanted = None if settings.keep_snapshots else "keep_snapshots is false"
    return [*notes, *delete_surplus_sets(ports, step.holder, settings.name, unwanted)]


def _settle_resources(ports: Ports, step: RecordStep, settings: ClusterSettings) -> list[str]:
    if step.operation != "scale_out" or step.outcome not in _SERVES:
        return []
    run = ports.ledger.run(step.run_id)
    rows = ports.ledger.resources(step.run_id)
    holder = step.holder
    returned = builder_of(run) != step.run_id
    for row in rows:
        if row.kind in _SERVING_KINDS and row.is_open:
            ports.ledger.mark(holder, step.run_id, row, ResourceState.KEPT)
    if step.batch is not None:
        return []
    kept = keep_set(ports, holder, run, rows) if _was_built_from(ports, run, returned) else None
    # A call of CreateSnapshots whose answer was lost may have made a set that nobody uses.
    notes = _deleted(TearDown(ports, holder, settings, step.run_id))
    if returned and kept is None:
        return [*notes, "a parked replica came back: nothing was snapshotted, hydrated or proven anew"]
    if kept is None or not settings.keep_snapshots:
        return notes
    return [
        *notes,
        f"{', '.join(sorted(kept.snapshot_ids))} stay: the next snapshots of {kept.donor} copy only changes",
    ]


def _was_built_from(ports: Ports, run: RunRow, returned: bool) -> bool:
    """Tells whether a serving replica was built from the run's snapshot set: then the set is complete."""
    batch = run.part(Batch)
    if batch is None:
        return not returned
    ended = members_of(ports, batch).values()
    return any(one.state == "in_service" and one.method is Method.BUILD for one in ended)


def _deleted(job: TearDown) -> list[str]:
    """Deletes the run's snapshots, which no serving replica needs: one that stays is named, and fails nothing."""
    try:
        left = delete_snapshots(job, job.ports.ledger.resources(job.run_id))
    except (AwsCallRejected, NotOwned) as error:
        return [f"a snapshot that nobody uses stays: {error}"]
    return [f"snapshots that nobody uses go: {', '.join(left)}"] if left else []


def _assemble(
    ports: Ports, step: RecordStep, run: RunRow, failure: Failure | None, notes: list[str]
) -> Receipt:
    steps = ports.ledger.steps(step.run_id)
    builder = _builder(ports, run)
    return assemble_receipt(
        run,
        steps,
        ports.ledger.resources(step.run_id),
        outcome=step.outcome,
        failure=failure,
        price=_price(builder, run),
        replica_since=_running_since(run),
        load_crossed_at=_load_crossed_at(ports, run),
        notes=notes,
        now=ports.clock.now(),
        replica=_replica(ports, run),
        members=() if step.batch is not None else _members(ports, run),
    )


def _members(ports: Ports, run: RunRow) -> tuple[ReceiptMember, ...]:
    """Returns the receipt's members in the order of their numbers; none for a run that opened no batch."""
    batch = run.part(Batch)
    rows = {} if batch is None else member_rows(ports, batch)
    replicas = ports.ledger.replicas(run.cluster)
    of_batch = ports.ledger.steps(run.run_id)
    found = []
    for run_id, row in rows.items():
        replica = row.part(RunReplica)
        known = None if replica is None else replicas.get(replica.instance_id)
        found.append(receipt_member(row, ports.ledger.steps(run_id), of_batch, known))
    return tuple(one for one in found if one is not None)


def _replica(ports: Ports, run: RunRow) -> ReplicaRow | None:
    replica = run.part(RunReplica)
    return None if replica is None else ports.ledger.replicas(run.cluster).get(replica.instance_id)


def _builder(ports: Ports, run: RunRow) -> RunRow:
    """The run whose plan has the price: this one, or for a retirement the one that built the replica."""
    return run if run.part(ScaleOutPlan) else ports.ledger.run(builder_of(run))


def _price(builder: RunRow, run: RunRow) -> Price | None:
    """Returns the price. One-time costs were paid when the replica was built: a start after that run's end
    has no part of them.
    """
    price, replica = price_of_build(builder), run.part(RunReplica)
    if price is None:
        return None
    ended = builder.finished_at
    if builder.run_id != run.run_id and replica is not None and ended and replica.running_since > ended:
        return price.model_copy(update={"once": 0.0})
    return price


def _running_since(run: RunRow) -> datetime | None:
    replica = run.part(RunReplica)
    return None if replica is None else replica.running_since


def _load_crossed_at(ports: Ports, run: RunRow) -> datetime | None:
    """Returns the first time since the run began at which the load exceeded the capacity of the fleet without
    the new replica; None also where the load may not be read.
    """
    plan = run.part(ScaleOutPlan)
    if run.operation != "scale_out" or plan is None:
        return None
    try:
        settings = ports.clusters.settings(run.cluster)
        points = ports.readings.load_points(settings, run.started_at, ports.clock.now())
    except (UnknownCluster, InvalidRequest, AwsCallRejected):
        return None
    capacity = plan.serving * settings.capacity_per_replica
    return next((at for at, load in points if load > capacity), None)
