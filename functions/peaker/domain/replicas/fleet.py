"""A cluster's instances as one state: the source, the replicas, their health and what the ledger knows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from peaker.domain.instants import Instant
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.inventory import Instance, TargetHealth, TargetState, Volume
from peaker_contract.names import LOAD_TAG, OWNER_TAG


class ReplicaState(StrEnum):
    """Life of a replica that Peaker made, as the ledger has it."""

    BUILDING = "building"
    IN_SERVICE = "in_service"
    DRAINING = "draining"
    PARKED = "parked"
    RETIRED = "retired"


_STANDING = frozenset({ReplicaState.BUILDING, ReplicaState.IN_SERVICE, ReplicaState.DRAINING})
REGISTERED = frozenset({TargetState.INITIAL, TargetState.HEALTHY, TargetState.UNHEALTHY})
# A load balancer registers a target in 3 to 5 minutes, and then checks its health. One that takes longer is missing.
REGISTRATION_TIME = timedelta(minutes=10)


@dataclass(frozen=True)
class Parking:
    """What a parked replica has applied, until when it can come back, and what has been learned about that.

    `until` None: no limit is known. `spent` says why it can never come back, `failed_return` why the last try
    failed. `incomplete_since` is when a volume of it was first found missing, None while it has all.
    `binlog_expire_seconds` is the source's; 0 means that it never purges by age, None is unknown.
    """

    parked_at: Instant
    gtid_set: str | None
    binlog_expire_seconds: float | None
    until: Instant | None
    until_reason: str
    spent: str | None = None
    failed_return: str | None = None
    incomplete_since: Instant | None = None


@dataclass(frozen=True)
class ReplicaRow:
    """The ledger's row of a replica that Peaker made; `run_id` is the run that built it, all its life.

    `unhealthy_since` is when one in service was first found unhealthy while others are healthy; None while it is not.
    """

    cluster: str
    instance_id: str
    run_id: str
    state: ReplicaState
    changed_at: Instant
    parking: Parking | None = None
    unhealthy_since: Instant | None = None


@dataclass(frozen=True)
class Replica:
    """One replica: the instance, its data volumes, its standing at the read endpoint, its lag in seconds."""

    instance: Instance
    volumes: tuple[Volume, ...]
    health: TargetHealth | Unknown
    lag_seconds: Reading
    ledger_row: ReplicaRow | None = None

    @property
    def instance_id(self) -> str:
        return self.instance.instance_id

    @property
    def is_serving(self) -> bool:
        """Known to be healthy at the endpoint; unknown health does not count (I4)."""
        return isinstance(self.health, TargetHealth) and self.health.state is TargetState.HEALTHY

    @property
    def is_base(self) -> bool:
        """Tells whether the replica is permanent base load: all that is not tagged as peak load."""
        return self.instance.tags.get(LOAD_TAG) != "peak"

    @property
    def is_ours(self) -> bool:
        """Owner tag and ledger row both say that Peaker made it (I1)."""
        return OWNER_TAG in self.instance.tags and self.ledger_row is not None

    @property
    def is_registered(self) -> bool:
        """Tells whether the replica is in the serving group, or may be: its health is unknown."""
        return isinstance(self.health, Unknown) or self.health.state in REGISTERED

    @property
    def is_registering(self) -> bool:
        return isinstance(self.health, TargetHealth) and self.health.state is TargetState.INITIAL

    @property
    def state(self) -> ReplicaState | None:
        """By the ledger; None where it has no row."""
        return None if self.ledger_row is None else self.ledger_row.state

    @property
    def is_standing(self) -> bool:
        """Tells whether the replica is building, in service or draining."""
        return self.state in _STANDING

    @property
    def is_building(self) -> bool:
        return self.state is ReplicaState.BUILDING

    @property
    def is_draining(self) -> bool:
        return self.state is ReplicaState.DRAINING

    @property
    def is_parked(self) -> bool:
        """Tells whether the replica is stopped with its warm volumes."""
        return self.state is ReplicaState.PARKED

    @property
    def health_text(self) -> str:
        if isinstance(self.health, Unknown):
            return f"unknown ({self.health.why})"
        return f"{self.health.state.value} {self.health.reason}".rstrip()


@dataclass(frozen=True)
class FleetState:
    """A cluster's source and replicas at one time. A source that was not found is Unknown.

    `at_work` are the ids of the replicas that the run which holds the lease builds or returns.
    """

    cluster: str
    gathered_at: datetime
    source: Instance | Unknown
    replicas: tuple[Replica, ...]
    at_work: frozenset[str] = frozenset()

    @property
    def serving(self) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if replica.is_serving)

    @property
    def staying(self) -> tuple[Replica, ...]:
        """Replicas that serve and do not drain by the ledger, of which one may be gone the next moment."""
        return tuple(one for one in self.serving if not one.is_draining)

    @property
    def building(self) -> tuple[Replica, ...]:
        """Replicas that the ledger calls so: a run makes them now, or left them behind."""
        return tuple(one for one in self.replicas if one.is_building)

    @property
    def returning(self) -> tuple[Replica, ...]:
        """Replicas that a removal put back and that the endpoint still registers, for REGISTRATION_TIME."""
        return tuple(
            one
            for one in self.replicas
            if one.is_registering
            and one.ledger_row is not None
            and one.ledger_row.state is ReplicaState.IN_SERVICE
            and self.gathered_at - one.ledger_row.changed_at < REGISTRATION_TIME
        )

    @property
    def coming(self) -> tuple[Replica, ...]:
        """Replicas that will serve: a run is at work on them, or the endpoint registers them again.

        What a dead run left will not come by itself.
        """
        built = (one for one in self.building if one.instance_id in self.at_work and not one.is_serving)
        return (*built, *self.returning)

    def back_before(self, instance_id: str) -> int:
        """Counts the draining replicas that return to service before this one, in the order of their ids.

        Each decides by itself, so that an order which all of them know keeps them from returning together.
        """
        draining = (one for one in self.replicas if one.is_draining and one.instance.state == "running")
        return sum(one.instance_id < instance_id for one in draining)

    @property
    def under_ceiling(self) -> tuple[Replica, ...]:
        """Replicas that `max_replicas` counts: registered ones, healthy or not, and Peaker's that are not parked.

        Each of them may serve the next moment without any run; unknown health is not absence (I4).
        """
        return tuple(one for one in self.replicas if one.is_registered or one.is_standing)

    @property
    def peak(self) -> tuple[Replica, ...]:
        """Peak replicas that run or are being made; parked ones cost their volumes only."""
        return tuple(replica for replica in self.replicas if not replica.is_base and not replica.is_parked)

    @property
    def parked(self) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if replica.is_parked)

    @property
    def by_zone(self) -> Counter[str]:
        """Replicas per zone, the parked ones left out: they serve nobody."""
        return Counter(replica.instance.zone for replica in self.replicas if not replica.is_parked)

    def replica(self, instance_id: str) -> Replica | None:
        """The replica of that id, or None when the fleet has no such replica."""
        return next((one for one in self.replicas if one.instance_id == instance_id), None)
