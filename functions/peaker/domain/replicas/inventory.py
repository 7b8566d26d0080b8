"""Instances, volumes, snapshots and targets as EC2 and the read endpoint list them, and the specs to make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from peaker_contract.names import ROLE_TAG, VOLUME_TAG


@dataclass(frozen=True)
class Instance:
    """An EC2 instance. `state` is EC2's word: pending, running, shutting-down, terminated, stopping, stopped.

    `client_token` is that of the launch; None for one that was launched without. `billed_as` is EC2's word for what it
    costs: Linux/UNIX, or with a licence. `state_reason` tells why it stopped or ended.
    """

    instance_id: str
    state: str
    private_ip: str
    zone: str
    instance_type: str
    launched_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)
    client_token: str | None = None
    billed_as: str | None = None
    state_reason: str = ""

    @property
    def is_replica(self) -> bool:
        """Tells whether it is tagged as a replica: IAM lets commands through to no other instance."""
        return self.tags.get(ROLE_TAG) == "replica"


@dataclass(frozen=True)
class Volume:
    """An EBS volume. `state` is EC2's word: creating, available, in-use, deleting, deleted, error."""

    volume_id: str
    state: str
    size_gib: int
    volume_type: str
    zone: str
    iops: int | None = None
    throughput_mib_per_s: int | None = None
    instance_id: str | None = None
    device: str | None = None
    attachment_state: str | None = None
    kms_key_id: str | None = None
    initialization_rate_mib_per_s: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The volume's name in the cluster settings (data, log), when it is tagged."""
        return self.tags.get(VOLUME_TAG)


@dataclass(frozen=True)
class Snapshot:
    """An EBS snapshot. `state` is EC2's word: pending, completed, error, recoverable, recovering. `kms_key_id` is None
    of one that is not encrypted."""

    snapshot_id: str
    state: str
    source_volume_id: str
    progress_percent: float
    full_size_bytes: int | None = None
    started_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    kms_key_id: str | None = None


class TargetState(StrEnum):
    """A target's state at the read endpoint; absent means that it is not registered."""

    INITIAL = "initial"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    UNUSED = "unused"
    UNAVAILABLE = "unavailable"
    ABSENT = "absent"


@dataclass(frozen=True)
class TargetHealth:
    """State of one target with the endpoint's own reason."""

    state: TargetState
    reason: str = ""


@dataclass(frozen=True)
class InstanceSpec:
    """The instance to launch.

    With `capacity_reservation_group_arn` it runs in room of the group's reservations where they have some for it.
    """

    image_id: str
    instance_type: str
    subnet_id: str
    security_group_ids: tuple[str, ...]
    instance_profile: str | None
    tags: Mapping[str, str]
    capacity_reservation_group_arn: str | None = None


@dataclass(frozen=True)
class CapacityReservation:
    """An open capacity reservation of the account: `available` are the instances of its type that it has room for.

    A targeted one takes only launches that name it, or a group that it is in.
    """

    instance_type: str
    available: int
    is_targeted: bool


@dataclass(frozen=True)
class VolumeSpec:
    """The volume to make, and its snapshot; rates in MiB/s. Without a snapshot it is empty, and encrypted under
    `kms_key_id` where that is given; one of a snapshot is as its snapshot."""

    snapshot_id: str | None
    zone: str
    size_gib: int
    volume_type: str
    iops: int
    throughput_mib_per_s: int
    initialization_rate_mib_per_s: int | None
    tags: Mapping[str, str]
    kms_key_id: str | None = None


class CommandStatus(StrEnum):
    """How a host command stands; missing means that Systems Manager does not know it (yet)."""

    PENDING = "Pending"
    RUNNING = "InProgress"
    DELAYED = "Delayed"
    SUCCESS = "Success"
    CANCELLING = "Cancelling"
    CANCELLED = "Cancelled"
    TIMED_OUT = "TimedOut"
    FAILED = "Failed"
    MISSING = "Missing"

    @property
    def is_over(self) -> bool:
        return self in {
            CommandStatus.SUCCESS,
            CommandStatus.CANCELLED,
            CommandStatus.TIMED_OUT,
            CommandStatus.FAILED,
        }


@dataclass(frozen=True)
class CommandOutcome:
    """Status of a host command and what it printed (stdout only once it has ended)."""

    status: CommandStatus
    status_details: str = ""
    stdout: str = ""
    stderr: str = ""


Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstancePromise:
    """An instance type's promise covers all its volumes: always (baseline), and at best (30 minutes a day).

    `architectures` and `bandwidth_weightings` (ways to share bandwidth between network and volumes) are EC2's words.
    """

    baseline_iops: float | None = None
    baseline_mib_per_s: float | None = None
    maximum_iops: float | None = None
    maximum_mib_per_s: float | None = None
    memory_mib: float | None = None
    architectures: tuple[str, ...] = ()
    bandwidth_weightings: tuple[str, ...] = ()
