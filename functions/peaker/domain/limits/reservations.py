"""Who has how much of a limit, from when until when. Pure.

First asked, first placed: a reservation never moves once it is made, so that whoever asks later can delay nobody and
a large one is not passed by for ever. A later one may begin earlier, in a gap that is large enough for its whole time
(conservative backfilling). While others have some of a limit, no cluster gets more than half of it, unless a single one
of its reservations is larger. Who is alone may have all of it.

A reservation ends by itself: what its run does, or whether it is alive, is never asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from peaker.domain.limits.account_limits import Limit

SHARE_OF_A_CLUSTER = 0.5
# All are one item of DynamoDB, of 400 KB at most; one takes some 200 bytes.
MOST_RESERVATIONS = 1_000


class Reservation(BaseModel):
    """So much of the limit's unit from `begins_at` until `ends_at`; `run_id` is the member's that asked."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    cluster: str
    amount: float = Field(gt=0, allow_inf_nan=False)
    begins_at: AwareDatetime
    ends_at: AwareDatetime


class Reservations(BaseModel):
    """All of one limit. `version` grows with each write; 0 before the first."""

    model_config = ConfigDict(frozen=True)

    version: int = 0
    made: tuple[Reservation, ...] = ()

    def of(self, run_id: str) -> Reservation | None:
        """The run's own, whether it has begun or not."""
        return next((one for one in self.made if one.run_id == run_id), None)

    def without(self, run_id: str) -> Reservations:
        """The same without the run's own."""
        return self.model_copy(update={"made": tuple(one for one in self.made if one.run_id != run_id)})

    def open_at(self, now: datetime) -> Reservations:
        """Those that have not ended."""
        return self.model_copy(update={"made": tuple(one for one in self.made if one.ends_at > now)})

    def in_use(self, start: datetime, end: datetime) -> float:
        """The most that is in use at a time between the two."""
        spans = _usage(self.made, "", start.timestamp())
        return max((span.total for span in spans if span.start < end.timestamp()), default=0.0)


@dataclass(frozen=True)
class Wanted:
    """What a run asks for that may start at `not_before`: so much, for so long, from `start_seconds` after its start.

    It goes without where it would have to start later than its patience.
    """

    run_id: str
    cluster: str
    amount: float
    hold_seconds: float
    not_before: datetime
    patience_seconds: float
    start_seconds: float = 0.0

    @property
    def earliest(self) -> datetime:
        """When it can use it first."""
        return self.not_before + timedelta(seconds=self.start_seconds)


@dataclass(frozen=True)
class Reserved:
    """The run's reservation, all of them with it, and when the run may start so that it comes to its own in time."""

    own: Reservation
    reservations: Reservations
    starts_at: datetime


@dataclass(frozen=True)
class WithoutReservation:
    """Nothing was reserved. `could_begin_at` is when it could have begun; None where it never can."""

    why: str
    could_begin_at: datetime | None


def reserve(
    there: Reservations, limit: Limit, wanted: Wanted, now: datetime
) -> Reserved | WithoutReservation:
    """The earliest time at which the limit carries it for its whole time. The same run gets what it has already."""
    open_ones = there.open_at(now)
    own = open_ones.of(wanted.run_id)
    if own is not None:
        return Reserved(own, open_ones, _starts_at(own, wanted))
    if wanted.amount > limit.capacity:
        return WithoutReservation(
            f"{wanted.amount:,.0f} {limit.unit} are more than the {limit.capacity:,.0f} that there are", None
        )
    begins_at = earliest_start(open_ones, limit, wanted)
    waits = (begins_at - wanted.earliest).total_seconds()
    if waits > wanted.patience_seconds:
        return WithoutReservation(
            f"{wanted.amount:,.0f} {limit.unit} are free at {begins_at:%H:%M:%S}; to wait for them for "
            f"{waits / 60:.1f} min is worth it up to {wanted.patience_seconds / 60:.1f} min",
            begins_at,
        )
    if len(open_ones.made) >= MOST_RESERVATIONS:
        return WithoutReservation(f"there are {MOST_RESERVATIONS:,} reservations, no more are kept", None)
    own = Reservation(
        run_id=wanted.run_id,
        cluster=wanted.cluster,
        amount=wanted.amount,
        begins_at=begins_at,
        ends_at=begins_at + timedelta(seconds=wanted.hold_seconds),
    )
    return Reserved(
        own, open_ones.model_copy(update={"made": (*open_ones.made, own)}), _starts_at(own, wanted)
    )


def _starts_at(own: Reservation, wanted: Wanted) -> datetime:
    return max(wanted.not_before, own.begins_at - timedelta(seconds=wanted.start_seconds))


def earliest_start(there: Reservations, limit: Limit, wanted: Wanted) -> datetime:
    """When the limit carries it for its whole time beside all that is reserved. Needs an amount within the capacity."""
    share = limit.capacity * SHARE_OF_A_CLUSTER
    allowed, allowed_of_cluster = limit.capacity - wanted.amount, max(0.0, share - wanted.amount)
    start = wanted.earliest.timestamp()
    for span in _usage(there.made, wanted.cluster, start):
        if span.start >= start + wanted.hold_seconds:
            break
        shared = span.total > span.of_cluster
        if span.total > allowed or (shared and span.of_cluster > allowed_of_cluster):
            start = span.end
    return max(wanted.earliest, datetime.fromtimestamp(start, tz=wanted.earliest.tzinfo))


@dataclass(frozen=True)
class _Span:
    """What is in use from `start` to `end`, in seconds of the epoch: by all, and by one cluster."""

    start: float
    end: float
    total: float
    of_cluster: float


def _usage(made: Sequence[Reservation], cluster: str, since: float) -> Iterator[_Span]:
    """From `since` until the last one has ended, without gaps."""
    changes: list[tuple[float, float, float]] = []
    for one in made:
        start, end = max(since, one.begins_at.timestamp()), one.ends_at.timestamp()
        if end > start:
            own = one.amount if one.cluster == cluster else 0.0
            changes += [(start, one.amount, own), (end, -one.amount, -own)]
    changes.sort()
    total = of_cluster = 0.0
    for number, (at, amount, own) in enumerate(changes):
        total, of_cluster = total + amount, of_cluster + own
        if number + 1 < len(changes) and changes[number + 1][0] > at:
            yield _Span(at, changes[number + 1][0], total, of_cluster)
