"""What the lead time of a cluster depends on, gathered from its settings, its volumes and its past runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from peaker.domain.planning.lead_time import MIB, LeadTimeInputs, VolumeToHydrate
from peaker.domain.reading import Unknown
from peaker.domain.replicas.donor import DonorChoice, choose_donor, data_volumes
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
    """What the lead time depends on: the bytes of the last prewarm, else what is hot with serve_when hot, else what
    the donor's snapshots hold, else the sizes of a replica's volumes; and the pages of the last donor's buffer
    pool, else what the instance type has room for; `promised` is what EC2 says of it.

    Without the snapshots of the donor's volumes all that is used is taken to be copied.
    """
    promise = None if isinstance(promised, Unknown) else promised
    sizes = volume_bytes(settings, fleet)
    held = {} if snapshots is None else snapshots.held_bytes
    most = {one.name: min(sizes.get(one.name, 0.0), held.get(one.name, math.inf)) for one in settings.volumes}
    whole = sum(most.values())
    newest = past.hydrated_bytes[-1] if past.hydrated_bytes else _hot_bytes(settings, past, promise)
    share = min(1.0, newest / whole) if newest is not None and whole > 0 else 1.0
    volumes = tuple(
        VolumeToHydrate(
            volume.name,
            most[volume.name] * share,
            volume.throughput_mib_per_s * MIB,
        )
        for volume in settings.volumes
    )
    used = sum(held.get(one.name, one.data_bytes) for one in volumes)
    full = ExpectedCopy(True, used, "full copy")
    copy = full if snapshots is None else snapshots.expected_copy(used)
    widest = max((one.data_bytes for one in volumes), default=0.0)
    late = float(settings.read_endpoint.clients_follow_within_seconds)
    return LeadTimeInputs(
        volumes=volumes,
        snapshot_copied_bytes=copy.copied_bytes,
        snapshot_most_bytes=None if copy.is_full else used,
        snapshot_widest_share=widest / total
        if (total := sum(one.data_bytes for one in volumes)) > 0
        else 1.0,
        buffer_pool_bytes=_pool_bytes(past, promise),
        snapshot_basis=copy.reason,
        paid_mib_per_s=float(settings.initialization_rate_mib_per_s or 0),
        instance_mib_per_s=None if promise is None else promise.baseline_mib_per_s,
        instance_burst_mib_per_s=None if promise is None else promise.maximum_mib_per_s,
        hot_share=_hot_share(
            settings, past, _pool_bytes(past, promise), sum(one.data_bytes for one in volumes)
        ),
        trigger_seconds=60.0 * (settings.forecast.schedule_minutes + 1),
        register_seconds=NLB_TARGET_SECONDS
        if settings.read_endpoint.kind == "nlb"
        else HEALTH_CHECKS_SECONDS + late,
        # After the last share the replica is registered once more, with those that serve.
        ramp_seconds=len(settings.ramp.shares) * (settings.ramp_step_seconds + settings.ramp.window_seconds)
        + late,
    )


def _pool_bytes(past: PastSteps, promise: InstancePromise | None) -> float:
    """0 where nobody has told, and the memory of the type is not known either."""
    if past.pool_bytes:
        return past.pool_bytes[-1]
    if promise is None or promise.memory_mib is None:
        return 0.0
    return POOL_SHARE_OF_MEMORY * promise.memory_mib * MIB


def _hot_share(settings: ClusterSettings, past: PastSteps, pool_bytes: float, read_bytes: float) -> float:
    """Of what is waited for, the share that is read before the database starts; with serve_when hot that is all.

    Before a run has shown it: what the donor's buffer pool holds, and what is read beside its pages.
    """
    if settings.prewarm.serve_when == "hot":
        return 1.0
    if past.hot_shares:
        return median(past.hot_shares)
    if pool_bytes <= 0 or read_bytes <= 0:
        return 1.0
    return min(1.0, HOT_OVER_POOL * pool_bytes / read_bytes)


def _hot_bytes(settings: ClusterSettings, past: PastSteps, promise: InstancePromise | None) -> float | None:
    """Of all volumes, what a first run waits for with serve_when hot; None where all is waited for, or nobody knows."""
    if settings.prewarm.serve_when != "hot":
        return None
    return HOT_OVER_POOL * _pool_bytes(past, promise) or None


@dataclass(frozen=True)
class SnapshotHistory:
    """The snapshots that the likely donor's data volumes have at `now`, whoever made them; volume ids by name."""

    volumes: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    now: datetime

    @property
    def held_bytes(self) -> dict[str, float]:
        """What the newest completed snapshot of each volume holds, by the volume's name, where EC2 says."""
        newest = newest_completed(self.snapshots)
        found = {name: newest.get(volume_id) for name, volume_id in self.volumes.items()}
        return {
            name: float(one.full_size_bytes) for name, one in found.items() if one and one.full_size_bytes
        }

    def expected_copy(self, used_bytes: float) -> ExpectedCopy:
        """What a set of these volumes, which hold so much together, would copy now."""
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
    ids = {name: volume.volume_id for name, volume in data_volumes(choice.donor, settings).items()}
    try:
        found = ports.storage.snapshots_of_volumes(tuple(ids.values()))
    except PeakerError:
        return None
    return SnapshotHistory(ids, tuple(found), ports.clock.now())


def volume_bytes(settings: ClusterSettings, fleet: FleetState | None) -> dict[str, float]:
    """Bytes per volume name, from the replica that has the most of them."""
    sizes: dict[str, float] = {}
    for replica in fleet.replicas if fleet else ():
        for volume in replica.volumes:
            if volume.name is not None:
                sizes[volume.name] = max(sizes.get(volume.name, 0.0), volume.size_gib * GIB)
    return sizes
