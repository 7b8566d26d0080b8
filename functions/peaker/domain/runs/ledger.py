"""The ledger's rows of a run: its resources, its steps, its outcome, and the parts that steps settle for later ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from peaker.domain.decoding import Frozen, misfits
from peaker.domain.instants import Instant
from peaker.domain.runs.execution_input import ExecutionInput
from peaker_contract.errors import LedgerInconsistent

FIRST_SNAPSHOTS, PRUNE_SNAPSHOTS, SWEEP = "first_snapshots", "prune_snapshots", "sweep"
# Operations of scheduled functions under the lease: they take seconds, so that a run waits for their end.
SHORT_OPERATIONS = frozenset({FIRST_SNAPSHOTS, PRUNE_SNAPSHOTS, SWEEP})
# By its row a run is not at its end: nothing was recorded yet, or an undo that resisted.
UNFINISHED_OUTCOMES = frozenset({"running", "undo_incomplete"})


class ResourceKind(StrEnum):
    """A kind of resource that a run can make."""

    SNAPSHOT = "snapshot"
    INSTANCE = "instance"
    VOLUME = "volume"
    ATTACHMENT = "attachment"
    TARGET = "target"
    COMMAND = "command"


class ResourceState(StrEnum):
    """Intended is written before the call, made after its answer: a lost answer leaves `intended` behind."""

    INTENDED = "intended"
    MADE = "made"
    UNDONE = "undone"
    KEPT = "kept"


@dataclass(frozen=True)
class ResourceRow:
    """One resource of a run. `resource_id` is None until AWS's answer is known."""

    number: int
    kind: ResourceKind
    name: str
    state: ResourceState
    step: str
    intended_at: Instant
    made_at: Instant | None = None
    resource_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Still to be undone or kept."""
        return self.state in {ResourceState.INTENDED, ResourceState.MADE}


@dataclass(frozen=True)
class StepRow:
    """One step: the first start over all its retries, its end, and what it measured."""

    step: str
    started_at: Instant
    finished_at: Instant | None = None
    numbers: dict[str, Any] = field(default_factory=dict)


class RunPart(Frozen):
    """Base of the documents that a step settles for later ones: a plan, a donor, a ramp's state.

    Each part is one attribute of the run's row, `ledger_name`, written whole and without a read before it: branches
    that run side by side write different parts and cannot lose each other's.
    """

    ledger_name: ClassVar[str]


PartT = TypeVar("PartT", bound=RunPart)


@dataclass(frozen=True)
class RunRow:
    """One run. `parts` are the JSON documents that its steps have settled, by ledger_name."""

    run_id: str
    cluster: str
    operation: str
    started_at: Instant
    request: ExecutionInput
    outcome: str = "running"
    finished_at: Instant | None = None
    parts: Mapping[str, str] = field(default_factory=dict)

    def part(self, kind: type[PartT]) -> PartT | None:
        """Returns a settled part; None when no step has settled it. Raises LedgerInconsistent when it is
        there and cannot be read.
        """
        document = self.parts.get(kind.ledger_name)
        if document is None:
            return None
        try:
            return kind.model_validate_json(document)
        except ValidationError as error:
            raise LedgerInconsistent(
                f"{self.run_id}: the ledger's {kind.ledger_name} cannot be read: {misfits(error)}"
            ) from error

    def required(self, kind: type[PartT], step: str) -> PartT:
        """The part that this step needs. Raises LedgerInconsistent when no earlier step has settled it."""
        found = self.part(kind)
        if found is None:
            raise LedgerInconsistent(
                f"{self.run_id}: {step} needs {kind.ledger_name}, which the ledger does not have; an earlier step "
                "must write it"
            )
        return found


@dataclass(frozen=True)
class LeaseRow:
    """The holder of a cluster's lease, and its end."""

    cluster: str
    run_id: str
    operation: str
    fencing_token: int
    held_until: datetime


@dataclass(frozen=True)
class Holder:
    """The holder of a lease, which every write of a run names; a write whose token is not the lease's fails (I6).

    A member of a batch writes into its own rows under the lease of `batch`. With a `member_token` a write fails, too,
    once the member was fenced: the others go on meanwhile.
    """

    cluster: str
    run_id: str
    fencing_token: int
    batch: str | None = None
    member_token: int | None = None

    @property
    def lease_run(self) -> str:
        """The run in whose name the lease is held."""
        return self.batch or self.run_id


def find(rows: Iterable[ResourceRow], kind: ResourceKind, name: str) -> ResourceRow | None:
    """The row of that kind and name, or None."""
    return next((row for row in rows if row.kind is kind and row.name == name), None)


def of_kind(rows: Iterable[ResourceRow], kind: ResourceKind) -> list[ResourceRow]:
    """All rows of a kind in the order in which they were intended."""
    return sorted((row for row in rows if row.kind is kind), key=lambda row: (row.number, row.name))


class Donor(RunPart):
    """The replica that is snapshotted, and the ids of its data volumes by name."""

    ledger_name = "donor"

    instance_id: str
    volumes: dict[str, str]


class DonorServer(RunPart):
    """Facts about the donor's server that an image must fit, as the host package names them."""

    ledger_name = "donor_server"

    facts: dict[str, Any]


class Source(RunPart):
    """The server that the replica will follow."""

    ledger_name = "source"

    instance_id: str
    private_ip: str


class RunReplica(RunPart):
    """The replica that the run works on: launched by it, brought back by it, or chosen to go.

    `builder` is the run that built it; tags, ledger row and the host's records carry that run's id all its life.
    `running_since` is the start from which its hours count. `follows` is the id of the source at the moment at which
    one in service was chosen to go; None where nobody looked.
    """

    ledger_name = "replica"

    instance_id: str
    builder: str
    running_since: datetime
    follows: str | None = None


class Removal(RunPart):
    """The replicas that the run chose to take away, in the order of its members, once and for all."""

    ledger_name = "removal"

    replicas: tuple[RunReplica, ...]


class VolumeRates(RunPart):
    """The initialization rates in MiB/s that EBS made the volumes with, by their names; None is the default rate."""

    ledger_name = "volume_rates"

    rates: dict[str, int | None]


class Placement(RunPart):
    """The run's placement: the zone that had room for the instance, and the type. Volumes follow the zone."""

    ledger_name = "placement"

    zone: str
    instance_type: str | None = None


class BlockList(RunPart):
    """The number of blocks of 512 KiB in the run's snapshots, by volume name; or the reason why no list could
    be had.
    """

    ledger_name = "block_list"

    blocks: dict[str, int] | None = None
    missing: str = ""


class DatabaseStop(RunPart):
    """The time at which a parked replica's database was first found stopped."""

    ledger_name = "database_stop"

    at: datetime


class EndpointExit(RunPart):
    """The time at which the undo took the replica from the read endpoint; clients may still come for a while
    after that.
    """

    ledger_name = "endpoint_exit"

    at: datetime


class Waking(RunPart):
    """The number of times that the run began to bring a database back, by the instance's id; earlier answers
    are void then.
    """

    ledger_name = "waking"

    times: dict[str, int]


class FirstSetSize(RunPart):
    """The most GiB that an observed cluster's first snapshot set stores."""

    ledger_name = "first_set_size"

    gib: float
