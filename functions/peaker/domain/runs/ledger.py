"""What the ledger holds of a run: its resources, its steps, its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class ResourceKind(StrEnum):
    """What a run can make."""

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
    """One thing of a run. `resource_id` is None until AWS's answer is known."""

    number: int
    kind: ResourceKind
    name: str
    state: ResourceState
    step: str
    intended_at: datetime
    made_at: datetime | None = None
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
    started_at: datetime
    finished_at: datetime | None = None
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRow:
    """One run. `plan` and `facts` (donor, source, zone) are what later steps need."""

    run_id: str
    cluster: str
    operation: str
    started_at: datetime
    request: dict[str, Any]
    outcome: str = "running"
    finished_at: datetime | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LeaseRow:
    """Who works on a cluster, until when."""

    cluster: str
    run_id: str
    operation: str
    fencing_token: int
    held_until: datetime


@dataclass(frozen=True)
class Holder:
    """Proof of a lease that every write of a run carries; a write whose token is not the lease's fails (I6)."""

    cluster: str
    run_id: str
    fencing_token: int


def find(rows: Iterable[ResourceRow], kind: ResourceKind, name: str) -> ResourceRow | None:
    """The row of that kind and name, or None."""
    return next((row for row in rows if row.kind is kind and row.name == name), None)


def of_kind(rows: Iterable[ResourceRow], kind: ResourceKind) -> list[ResourceRow]:
    """All rows of a kind in the order in which they were intended."""
    return sorted((row for row in rows if row.kind is kind), key=lambda row: (row.number, row.name))
