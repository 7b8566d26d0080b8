"""Leftovers have no run at work, or ledger and cloud disagree about them. Pure.

A run is left when its execution has ended without an outcome, or with an undo that was incomplete. A replica is left
when it does not stand where its row says. A thing is left when its run is closed and no replica explains it.
Unknown means hold (I4), and what is in flight is given time: functions end within two minutes, lists of AWS are
complete within a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from peaker.domain.instants import seconds_between
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import LeaseRow, ResourceKind, ResourceRow, RunPart, RunReplica, RunRow
from peaker.domain.runs.run_execution import EVENT_GRACE, RunExecution

# The longest execution (prewarm included) ends after three and a half days: what is not listed then is
# over.
LONGEST_EXECUTION = timedelta(days=3, hours=13)
# After that the sweep takes over: roll_back gives its lease back sooner, or something keeps it from that.
ROLL_BACK_TIME = timedelta(minutes=10)
# A row or a thing that is younger may belong to a call in flight, or not show in every list yet.
SETTLED_AFTER = timedelta(minutes=10)
# Each look does one step of an undo; after so many with the same error it is tried at growing distances.
LOOKS_WITHOUT_PAUSE = 5
LONGEST_PAUSE = timedelta(hours=1)
_FIRST_PAUSE = timedelta(minutes=6)
# Operations that execute a workflow; maintain_snapshots takes a first snapshot set.
WORKFLOWS = frozenset({"scale_out", "scale_in"})
_RUNNING = frozenset({"pending", "running"})
# Only a run at work leaves a row so: without one there is nothing to wait for.
_IN_HAND = frozenset({ReplicaState.BUILDING, ReplicaState.DRAINING})
_ENDED = frozenset({"shutting-down", "terminated"})


class Remedy(StrEnum):
    """A remedy is the action on a leftover."""

    END_RUN = "end_run"  # the run's own undo, or the end of its retirement
    REJOIN = "rejoin"  # serves by its row, or drains by nobody's work: goes behind the endpoint again
    PARK = "park"  # parked by its row, or returning by nobody's work: out of the endpoint, and stopped
    CLEAR = "clear"  # nothing of it may be there: everything that its run made goes
    REMOVE_DOUBLE = "remove_double"  # a second instance of a run whose replica stands
    DOUBT = "doubt"  # unhealthy while others are healthy: noted, in case that it comes to itself
    TRUST = "trust"  # it was doubted, and is so no more: the note goes
    WRITE_OFF = "write_off"  # somebody detached a volume of it: noted, in case that it comes back soon
    RETIRE = "retire"  # written off a while ago: it and all that its run made goes


class UndoAttempts(RunPart):
    """The number of attempts at a run's leftover, and the time of the last one.

    `failed` of the looks ended in an error, not in waiting; the last `alike` of them ended in the same one, `waiting`.
    """

    ledger_name = "undo_attempts"

    first_at: datetime
    last_at: datetime
    looks: int = 1
    failed: int = 0
    alike: int = 1
    waiting: str = ""


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that is `running` or `undo_incomplete` by its row, and the execution that began it."""

    run: RunRow
    execution: RunExecution | Unknown


@dataclass(frozen=True)
class OwnedThing:
    """An instance, a volume or a snapshot that carries this environment's owner tag, and the run of its tag."""

    kind: ResourceKind
    resource_id: str
    run_id: str


@dataclass(frozen=True)
class ClusterObservation:
    """A cluster as ledger, cloud and executions have it at one time.

    `states` are EC2's words by instance id, `terminated` for what it does not know any more. `registered` are the
    ids in either group of the endpoint, `leaving` those that it only drains any more. `lost_volumes` are, by the id of
    a replica that gets no reads, the volumes that were made for it and are attached to it no more. `unhealthy` are
    those in the serving group that get no reads while another one does. `runs` are the runs that things name, as far as
    the ledger knows them. `sweep` is how often what no run's own undo ends was taken up already.
    """

    cluster: str
    at: datetime
    lease: LeaseRow | None = None
    lease_execution: RunExecution | Unknown = field(default_factory=lambda: Unknown("no lease is held"))
    unfinished: tuple[UnfinishedRun, ...] = ()
    rolled_back: frozenset[str] = frozenset()
    rows: Mapping[str, ReplicaRow] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    registered: frozenset[str] | Unknown = frozenset()
    leaving: frozenset[str] = frozenset()
    lost_volumes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unhealthy: frozenset[str] = frozenset()
    things: tuple[OwnedThing, ...] = ()
    kept_snapshots: frozenset[str] = frozenset()
    runs: Mapping[str, RunRow] = field(default_factory=dict)
    sweep: UndoAttempts | None = None


@dataclass(frozen=True)
class Leftover:
    """One thing to do: of which run, at which replica, and why."""

    remedy: Remedy
    run_id: str
    reason: str
    instance_id: str | None = None


@dataclass(frozen=True)
class LeftoverDecision:
    """`leftovers` are due, `paused` resisted and are tried again later, `untouchable` is what Peaker may not touch.

    `held` says what may be no leftover at all, and why. `is_clear`: every replica and thing was looked at, and none is
    left, due or paused.
    """

    leftovers: tuple[Leftover, ...] = ()
    paused: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    untouchable: tuple[str, ...] = ()
    is_clear: bool = False

    @property
    def text(self) -> str:
        said = [f"{one.remedy.value} {one.instance_id or one.run_id}: {one.reason}" for one in self.leftovers]
        return "; ".join((*said, *self.paused, *self.held, *self.untouchable)) or "nothing is left over"


def decide_leftovers(observed: ClusterObservation) -> LeftoverDecision:
    """Decides the leftovers to take up in this cluster now. While a run is at work, only its own end is
    looked for (I6).
    """
    if observed.lease is not None:
        return _judge_lease(observed, observed.lease)
    ends = [_judge_unfinished(observed, one) for one in observed.unfinished]
    busy = frozenset().union(*(_runs_in_hand(one.run) for one in observed.unfinished))
    found = [*_replicas_left(observed, busy), *_things_left(observed, busy)]
    is_clear = not found
    paused = [one for one in ends if isinstance(one, str)]
    if found and (again := _not_due(observed.sweep, observed.at)):
        paused, found = [*paused, again], []
    return LeftoverDecision(
        leftovers=tuple(one for one in (*ends, *found) if isinstance(one, Leftover)),
        paused=tuple(paused),
        held=tuple(one.why for one in ends if isinstance(one, Unknown)),
        untouchable=tuple(_untouchable(observed, busy)),
        is_clear=is_clear,
    )


def next_look(taken: UndoAttempts) -> datetime:
    """Returns the time when a leftover that was taken up before is due again."""
    more = taken.alike - LOOKS_WITHOUT_PAUSE
    if more <= 0:
        return taken.last_at
    pause: timedelta = _FIRST_PAUSE * 2 ** min(more, 8)
    return taken.last_at + min(LONGEST_PAUSE, pause)


def _judge_lease(observed: ClusterObservation, lease: LeaseRow) -> LeftoverDecision:
    """A lease is held by nobody when its execution has ended and no roll_back is at work on it."""
    if lease.operation not in WORKFLOWS:
        return LeftoverDecision(held=(f"{lease.run_id}: {lease.operation} is at work for a moment",))
    why = _ended(observed, lease.run_id, observed.lease_execution)
    if isinstance(why, Unknown):
        return LeftoverDecision(held=(why.why,))
    return LeftoverDecision(leftovers=(Leftover(Remedy.END_RUN, lease.run_id, why),))


def _judge_unfinished(observed: ClusterObservation, one: UnfinishedRun) -> Leftover | str | Unknown:
    """A sentence where it is left and not due yet; Unknown where somebody may be at work on it."""
    why = _ended(observed, one.run.run_id, one.execution, one.run.started_at)
    if isinstance(why, Unknown):
        return why
    return _not_due(one.run.part(UndoAttempts), observed.at) or Leftover(Remedy.END_RUN, one.run.run_id, why)


def _not_due(taken: UndoAttempts | None, at: datetime) -> str | None:
    """Returns the time of the next attempt at a resisting leftover, as a sentence; None when it is due now."""
    if taken is None or at >= next_look(taken):
        return None
    return f"{taken.waiting}; looked at {taken.looks} times, next {next_look(taken):%H:%M}"


def _ended(
    observed: ClusterObservation,
    run_id: str,
    execution: RunExecution | Unknown,
    began_at: datetime | None = None,
) -> str | Unknown:
    """Returns the reason why the run is not at work any more; Unknown, with a reason, where it may be."""
    if isinstance(execution, Unknown):
        if began_at is not None and observed.at - began_at > LONGEST_EXECUTION:
            return f"it began {began_at:%d %b %H:%M}, longer ago than an execution may last"
        return Unknown(f"{run_id}: {execution.why}")
    if execution.ended_at is None:
        return Unknown(f"{run_id}: its execution is {execution.status}")
    if execution.name in observed.rolled_back and observed.at - execution.ended_at < ROLL_BACK_TIME:
        return Unknown(f"{run_id}: roll_back is at work on it")
    left = EVENT_GRACE - (observed.at - execution.ended_at)
    if left > timedelta(0):
        return Unknown(f"{run_id}: {execution.text}; its event has {left.total_seconds():.0f} s more")
    return f"{execution.text} without an undo"


def _runs_in_hand(run: RunRow) -> frozenset[str]:
    """The run itself, and the one that built the replica which it works on."""
    replica = run.part(RunReplica)
    return frozenset({run.run_id} if replica is None else {run.run_id, replica.builder})


def _replicas_left(observed: ClusterObservation, busy: frozenset[str]) -> Iterator[Leftover]:
    for instance_id, row in sorted(observed.rows.items()):
        settled = seconds_between(row.changed_at, observed.at) >= SETTLED_AFTER.total_seconds()
        if row.run_id in busy or not (settled or row.state in _IN_HAND):
            continue
        found = _replica_left(observed, row)
        if found is not None:
            remedy, why = found
            yield Leftover(remedy, row.run_id, why, instance_id)


def _replica_left(observed: ClusterObservation, row: ReplicaRow) -> tuple[Remedy, str] | None:
    state = observed.states.get(row.instance_id, "terminated")
    known = not isinstance(observed.registered, Unknown)
    registered = not isinstance(observed.registered, Unknown) and row.instance_id in observed.registered
    match row.state:
        case ReplicaState.RETIRED:
            stays = registered and row.instance_id not in observed.leaving
            return (Remedy.CLEAR, "it is retired, and the endpoint still has it") if stays else None
        case _ if state in _ENDED:
            return Remedy.CLEAR, f"the ledger says {row.state.value}, and its instance is {state}"
        case _ if row.instance_id in observed.lost_volumes:
            return _written_off(observed, row)
        case ReplicaState.PARKED if row.parking is not None and row.parking.incomplete_since is not None:
            return Remedy.PARK, "a volume that was missing is attached to it again"
        case ReplicaState.PARKED if registered or state in _RUNNING:
            place = "behind the endpoint" if registered else state
            return Remedy.PARK, f"it is parked by the ledger, and is {place}"
        case ReplicaState.BUILDING:
            remedy = Remedy.CLEAR if row.parking is None else Remedy.PARK
            return remedy, "it is being built by the ledger, and no run is at work on it"
        case ReplicaState.DRAINING:
            return Remedy.REJOIN, "it drains by the ledger, and no run is at work on it"
        case ReplicaState.IN_SERVICE if state == "stopped":
            return Remedy.REJOIN, "it serves by the ledger, and somebody stopped its instance"
        case ReplicaState.IN_SERVICE if known and not registered and state == "running":
            return Remedy.REJOIN, "it serves by the ledger, and the endpoint does not have it"
        case ReplicaState.IN_SERVICE if known and state == "running":
            return _doubted(observed, row)
        case _:
            return None


def _doubted(observed: ClusterObservation, row: ReplicaRow) -> tuple[Remedy, str] | None:
    """Returns the remedy for a host that may have booted anew with its database down. Lag ends by itself, and
    so may a stall.

    Where none is healthy the cause is none of theirs, and who sends reads to all of them needs every one.
    """
    since = row.unhealthy_since
    if row.instance_id not in observed.unhealthy:
        return None if since is None else (Remedy.TRUST, "it is not unhealthy alone any more")
    if since is None:
        return Remedy.DOUBT, "it is unhealthy while others are healthy"
    if seconds_between(since, observed.at) < SETTLED_AFTER.total_seconds():
        return None
    return Remedy.REJOIN, f"it is unhealthy since {since:%H:%M}, and others are healthy"


def _written_off(observed: ClusterObservation, row: ReplicaRow) -> tuple[Remedy, str] | None:
    """Noted first: who detached a volume for a moment finds the replica as it was."""
    why = f"{', '.join(observed.lost_volumes[row.instance_id])} of it is attached to it no more"
    since = row.changed_at if row.state is ReplicaState.DRAINING else None
    if row.state is ReplicaState.PARKED and row.parking is not None:
        since = row.parking.incomplete_since
    if since is None:
        return Remedy.WRITE_OFF, why
    if seconds_between(since, observed.at) < SETTLED_AFTER.total_seconds():
        return None
    return Remedy.RETIRE, why


def _things_left(observed: ClusterObservation, busy: frozenset[str]) -> Iterator[Leftover]:
    """One leftover for each run, whatever is left of it."""
    seen: set[str] = set()
    for thing in observed.things:
        run = observed.runs.get(thing.run_id)
        if run is None or thing.run_id in busy | seen or not _closed_long_ago(run, observed.at):
            continue
        standing = [row.instance_id for row in _standing(observed, thing.run_id)]
        if thing.resource_id in observed.kept_snapshots or thing.resource_id in standing:
            continue
        if thing.kind is ResourceKind.INSTANCE and standing:
            why = f"{thing.run_id} built {', '.join(standing)}, and this one too"
            yield Leftover(Remedy.REMOVE_DOUBLE, thing.run_id, why, thing.resource_id)
        elif thing.kind is ResourceKind.SNAPSHOT or not standing:
            seen.add(thing.run_id)
            why = f"{thing.kind.value} {thing.resource_id} is there, and its run ended as {run.outcome}"
            yield Leftover(Remedy.CLEAR, thing.run_id, why)


def _closed_long_ago(run: RunRow, at: datetime) -> bool:
    return (
        run.operation in WORKFLOWS
        and run.finished_at is not None
        and seconds_between(run.finished_at, at) >= SETTLED_AFTER.total_seconds()
    )


def _standing(observed: ClusterObservation, run_id: str) -> list[ReplicaRow]:
    return [
        row
        for row in observed.rows.values()
        if row.run_id == run_id and row.state is not ReplicaState.RETIRED
    ]


def _untouchable(observed: ClusterObservation, busy: frozenset[str]) -> Iterator[str]:
    for thing in observed.things:
        if thing.run_id not in observed.runs and thing.run_id not in busy:
            yield (
                f"{thing.kind.value} {thing.resource_id} says run {thing.run_id or 'none'}, which the ledger does not "
                "know: it is left alone (I1)"
            )


def attempt_of(rows: Sequence[ResourceRow], instance: Instance) -> ResourceRow | None:
    """Returns the launch of an instance by its id, or by the ClientToken where the answer was lost; None for an
    instance that no launch of the run made."""
    lost = [row for row in rows if row.resource_id is None]
    by_id = [row for row in rows if row.resource_id == instance.instance_id]
    by_token = [row for row in lost if row.details.get("client_token") in _tokens(instance)]
    return next(iter((*by_id, *by_token)), None)


def _tokens(instance: Instance) -> tuple[str, ...]:
    return () if instance.client_token is None else (instance.client_token,)
