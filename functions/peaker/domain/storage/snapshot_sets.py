"""Snapshot sets that outlive their run, so that the next snapshot of a volume copies only what changed. Pure.

EBS snapshots are incremental to the volume's newest one that still exists; without any, every block that was ever
written is copied (EBS User Guide, "How EBS snapshots work").
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from peaker.domain.instants import Instant
from peaker.domain.replicas.inventory import Snapshot

GIB = 1024.0**3
# A snapshot that is younger may not be in every list of EC2 yet.
_LISTED_AFTER = timedelta(minutes=10)
_DAY_SECONDS = 86_400.0
# The share of the used bytes that an increment of a day copies, in larger blocks than the database writes.
CHANGED_A_DAY = 0.15


@dataclass(frozen=True)
class SnapshotSet:
    """A completed set of one run that is kept: the cluster's own row of the ledger, without an expiry.

    `snapshots` and `sources` are ids by the name of the volume; `full_bytes` are stored by the set by itself.
    `manifest` describes the set (SetManifest.document); empty for a set that was kept without.
    """

    cluster: str
    run_id: str
    donor: str
    kept_at: Instant
    snapshots: Mapping[str, str]
    sources: Mapping[str, str]
    full_bytes: Mapping[str, int | None] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gib(self) -> float | None:
        """GiB that it stores, None where EC2 did not say."""
        sizes = list(self.full_bytes.values())
        return None if not sizes or None in sizes else sum(size or 0 for size in sizes) / GIB

    @property
    def snapshot_ids(self) -> frozenset[str]:
        return frozenset(self.snapshots.values())

    def without(self, snapshot_ids: Collection[str]) -> SnapshotSet:
        """The set without these snapshots. It is complete no more, so that it has no manifest."""
        left = {name: one for name, one in self.snapshots.items() if one not in snapshot_ids}
        return replace(
            self,
            snapshots=left,
            sources={name: self.sources[name] for name in left},
            full_bytes={name: self.full_bytes.get(name) for name in left},
            manifest={},
        )


@dataclass(frozen=True)
class SurplusSet:
    """A kept set that nothing needs any more, and why."""

    kept: SnapshotSet
    why: str


def surplus_sets(
    sets: Sequence[SnapshotSet],
    volumes_of_donor: Mapping[str, Collection[str]],
    unwanted: str | None = None,
) -> list[SurplusSet]:
    """Which kept sets go: all where none is wanted, older ones of a donor, and those of donors that are gone.

    `unwanted` says why none is wanted.
    `volumes_of_donor` has the ids of the volumes that each donor has now; none means that it is gone.
    """
    newest: dict[str, SnapshotSet] = {}
    for one in sorted(sets, key=lambda each: (each.kept_at, each.run_id)):
        newest[one.donor] = one
    found = []
    for one in sets:
        if unwanted is not None:
            found.append(SurplusSet(one, unwanted))
        elif newest[one.donor] is not one:
            found.append(SurplusSet(one, f"{newest[one.donor].run_id} made a newer one of {one.donor}"))
        elif not set(one.sources.values()) & set(volumes_of_donor.get(one.donor, ())):
            found.append(SurplusSet(one, f"{one.donor} and its volumes are gone"))
    return found


def deleted_outside(
    sets: Sequence[SnapshotSet], present: Collection[str], now: datetime
) -> dict[str, frozenset[str]]:
    """By the run of each kept set, its snapshots that EC2 has no more: somebody deleted them."""
    settled = [one for one in sets if now - one.kept_at >= _LISTED_AFTER]
    return {one.run_id: gone for one in settled if (gone := one.snapshot_ids.difference(present))}


def stored_gib(sets: Sequence[SnapshotSet], donor: str | None, planned_gib: float) -> float:
    """GiB that kept sets store after a run that makes one of `donor`, which then holds `planned_gib` at most.

    A set of unknown size counts as the planned one: it is of the same cluster.
    """
    others = [one for one in sets if one.donor != donor]
    return planned_gib + sum(planned_gib if one.gib is None else one.gib for one in others)


@dataclass(frozen=True)
class ExpectedCopy:
    """The next set's kind, a full copy or an increment; the bytes that it copies at first sight; and the reason."""

    is_full: bool
    copied_bytes: float
    reason: str


def newest_completed(snapshots: Sequence[Snapshot]) -> dict[str, Snapshot]:
    """The newest completed snapshot of each volume, those of others too."""
    found: dict[str, Snapshot] = {}
    for one in sorted(
        snapshots, key=lambda each: (each.started_at is not None, each.started_at, each.snapshot_id)
    ):
        if one.state == "completed" and one.started_at is not None:
            found[one.source_volume_id] = one
    return found


def expected_copy(
    used_bytes: Mapping[str, float], snapshots: Sequence[Snapshot], now: datetime
) -> ExpectedCopy:
    """Returns the copy that a set of these volumes (used bytes by volume id) would be now.

    It is a full one unless each volume has a completed snapshot. An increment has CHANGED_A_DAY of a day; the distinct
    blocks that change grow ever slower with time, because blocks are changed again.
    """
    whole = sum(used_bytes.values())
    newest = newest_completed(snapshots)
    without = sorted(set(used_bytes) - set(newest))
    if without:
        return ExpectedCopy(True, whole, f"full copy: no completed snapshot of {', '.join(without)}")
    times = [one.started_at for one in newest.values() if one.started_at is not None]
    since = max(0.0, (now - min(times)).total_seconds()) if times else 0.0
    share = min(1.0, CHANGED_A_DAY * math.sqrt(since / _DAY_SECONDS))
    return ExpectedCopy(False, share * whole, f"changed in {since / 3600:.1f} h as a rule")
