"""The inputs of a cluster's lead time are gathered from its settings, its volumes and its past runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from peaker.domain.planning.lead_time import MIB, LeadTimeInputs, VolumeToHydrate
from peaker.domain.reading import Unknown
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.donor import DonorChoice, choose_donor
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import InstancePromise, Snapshot
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.storage.snapshot_sets import ExpectedCopy, expected_copy, newest_completed
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError

GIB = 1024.0**3
HEALTH_CHECKS_SECONDS = 60.0
# AWS Support in aws-load-balancer-controller#1834: a target serves 3 to 5 minutes after it was registered, its health
# checks included.
NLB_TARGET_SECONDS = 240.0
# Blocks of 512 KiB are read for pages of 16 KiB: more comes in than the pool holds. Before it was measured: twice.
HOT_OVER_POOL = 2.0
# MySQL manual, "Enabling Automatic InnoDB Configuration for a Dedicated MySQL Server": above 4 GB of memory.
POOL_SHARE_OF_MEMORY = 0.75


def lead_time_inputs(
    settings: ClusterSettings,
    fleet: FleetState | None,
    past: PastSteps,
    snapshots: SnapshotHistory | None = None,
    promised: InstancePromise | Unknown | None = None,
) -> LeadTimeInputs:
    """The inputs of a lead time: the bytes of the last prewarm, else the hot ones with serve_when hot, else the bytes
    of the donor's snapshots, else the sizes of a replica's volumes; and the pages of the last donor's buffer pool, else
    as many as the instance type has room for; `promised` is EC2's description of it.

    Without the snapshots of the donor's volumes a full copy is expected.
    """
    promise = None if isinstance(promised, Unknown) else promised
    sizes = volume_bytes(settings, fleet)
    held = {} if snapshots is None else snapshots.held_bytes
    most = {one.name: min(sizes.get(one.name, 0.0), held.get(one.name, math.inf)) for one in settings.volumes}
    whole, hot = sum(most.values()), HOT_OVER_POOL * _pool_bytes(past, promise)
    serves_hot = settings.prewarm.serve_when == "hot"
    first = hot if serves_hot and hot else whole
    read = min(whole, (first, *past.read_bytes(serves_hot))[-1])
    share = read / whole if whole > 0 else 1.0
    used = sum(held.get(name, size * share) for name, size in most.items())
    copy = ExpectedCopy(True, used, "full copy") if snapshots is None else snapshots.expected_copy(used)
    late = float(settings.read_endpoint.clients_follow_within_seconds)
    is_nlb = settings.read_endpoint.kind == "nlb"
    return LeadTimeInputs(
        volumes=tuple(
            VolumeToHydrate(one.name, most[one.name] * share, one.throughput_mib_per_s * MIB)
            for one in settings.volumes
        ),
        snapshot_copied_bytes=copy.copied_bytes,
        snapshot_most_bytes=None if copy.is_full else used,
        snapshot_widest_share=max(most.values(), default=0.0) / whole if whole > 0 else 1.0,
        buffer_pool_bytes=_pool_bytes(past, promise),
        snapshot_basis=copy.reason,
        paid_mib_per_s=float(settings.initialization_rate_mib_per_s or 0),
        instance_mib_per_s=None if promise is None else promise.baseline_mib_per_s,
        instance_burst_mib_per_s=None if promise is None else promise.maximum_mib_per_s,
        # With serve_when hot all that is waited for is read before the database starts.
        hot_share=1.0 if serves_hot or not hot or not read else min(1.0, hot / read),
        trigger_seconds=60.0 * (settings.forecast.schedule_minutes + 1),
        register_seconds=NLB_TARGET_SECONDS if is_nlb else HEALTH_CHECKS_SECONDS + late,
        # After the last share the replica is registered once more, with those that serve.
        ramp_seconds=len(settings.ramp.shares) * (settings.ramp_step_seconds + settings.ramp.window_seconds)
        + late,
    )


def _pool_bytes(past: PastSteps, promise: InstancePromise | None) -> float:
    """The last donor's pages, else a share of the type's memory; 0 where both are unknown."""
    if past.pool_bytes:
        return past.pool_bytes[-1]
    memory = None if promise is None else promise.memory_mib
    return POOL_SHARE_OF_MEMORY * (memory or 0.0) * MIB


@dataclass(frozen=True)
class SnapshotHistory:
    """The snapshots that the likely donor's data volumes have at `now`, those of others too; volume ids by name."""

    volumes: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    now: datetime

    @property
    def held_bytes(self) -> dict[str, float]:
        """The bytes of each volume's newest completed snapshot, by the volume's name, where EC2 says."""
        newest = newest_completed(self.snapshots)
        found = {name: newest.get(volume_id) for name, volume_id in self.volumes.items()}
        return {
            name: float(one.full_size_bytes) for name, one in found.items() if one and one.full_size_bytes
        }

    def expected_copy(self, used_bytes: float) -> ExpectedCopy:
        """The copy that a set of these volumes, which hold so many bytes together, would be now."""
        if not self.volumes:
            return ExpectedCopy(True, used_bytes, "full copy: no donor is known")
        each = used_bytes / len(self.volumes)
        return expected_copy(dict.fromkeys(self.volumes.values(), each), self.snapshots, self.now)


def snapshot_history(
    ports: Ports, settings: ClusterSettings, fleet: FleetState | None, planned: DonorChoice | None = None
) -> SnapshotHistory | None:
    """Of the `planned` donor, else of that which a build would take now; None where it cannot be read: then a full copy
    is expected."""
    choice = planned or (None if fleet is None else choose_donor(fleet, settings))
    if choice is None or choice.donor is None:
        return None
    ids = {name: volume.volume_id for name, volume in data_volumes(choice.donor, settings.volumes).items()}
    try:
        found = ports.storage.snapshots_of_volumes(tuple(ids.values()))
    except PeakerError:
        return None
    return SnapshotHistory(ids, tuple(found), ports.clock.now())


def volume_bytes(settings: ClusterSettings, fleet: FleetState | None) -> dict[str, float]:
    """Bytes per name of a data volume, from the replica that has the most of them."""
    sizes: dict[str, float] = {}
    for replica in fleet.replicas if fleet else ():
        for name, volume in data_volumes(replica, settings.volumes).items():
            sizes[name] = max(sizes.get(name, 0.0), volume.size_gib * GIB)
    return sizes
