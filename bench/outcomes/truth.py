"""Clusters of four kinds, each with constants of its own that nobody tells Peaker."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peaker.domain.storage.io_findings import InstancePromise

from bench.faults.world.world import by_name, settings
from bench.outcomes.laws import spread
from peaker_contract.cluster import ClusterSettings

GIB, MIB = 1024.0**3, 1024.0**2
# EC2 user guide, "Amazon EBS-optimized instance types": MiB/s always and for half an hour; MiB of memory.
TYPES: Mapping[str, InstancePromise] = {
    name: InstancePromise(
        baseline_iops=iops,
        baseline_mib_per_s=base / 8 * 1e6 / MIB,
        maximum_iops=40_000,
        maximum_mib_per_s=best / 8 * 1e6 / MIB,
        memory_mib=memory * 1024.0,
        architectures=("x86_64",),
    )
    for name, iops, base, best, memory in (
        ("r6i.large", 3_600, 650, 10_000, 16),
        ("r6i.xlarge", 6_000, 1_250, 10_000, 32),
        ("r6i.2xlarge", 12_000, 2_500, 10_000, 64),
        ("r6i.4xlarge", 20_000, 5_000, 10_000, 128),
        ("r6i.8xlarge", 40_000, 10_000, 10_000, 256),
    )
}


@dataclass(frozen=True)
class Truth:
    """What one cluster is like. Sizes in bytes, rates in MiB/s, times in seconds.

    `used` by volume name at the start; it grows by `growth_per_day`. Of that `churn_share` is what is ever written
    again, at `write_mib_per_s` of distinct blocks while few were written yet. `freed_share` is what a snapshot holds
    beyond it. `apply_speed`: seconds of log replayed a second, `cold_apply` of that while the volumes are read.
    """

    settings: ClusterSettings
    size_gib: Mapping[str, int]
    used: Mapping[str, float]
    growth_per_day: float
    churn_share: float
    write_mib_per_s: float
    freed_share: float
    hot_share: float
    snapshot_overhead: float
    snapshot_mib_per_s: float
    hydration_mib_per_s: float
    boot_factor: float
    prepare_seconds: float
    assemble_seconds: float
    planning_seconds: float
    proof_seconds: float
    recovery_seconds: float
    apply_speed: float
    cold_apply: float
    pool_bytes: float
    pool_mib_per_s: float

    def used_bytes(self, volume: str, second: float) -> float:
        """What files use on a volume then."""
        return self.used[volume] * (1 + self.growth_per_day * second / 86_400)

    def held_bytes(self, volume: str, second: float) -> float:
        """What a snapshot of it holds."""
        return self.used_bytes(volume, second) * (1 + self.freed_share)

    def changed_bytes(self, volume: str, since: float, until: float) -> float:
        """Distinct blocks written between: ever slower, because what was written is written again."""
        whole = sum(self.used.values())
        most = self.churn_share * self.used_bytes(volume, until)
        written = self.write_mib_per_s * MIB * self.used[volume] / whole * (until - since)
        grown = self.used_bytes(volume, until) - self.used_bytes(volume, since)
        return most * (1 - math.exp(-written / most)) + grown


@dataclass(frozen=True)
class Kind:
    """A kind of cluster: what is set, and between what its constants are drawn.

    `gap_hours`: from when its replicas have gone until the next run. `backed_up_hours`: so long before the first run
    its owner snapshotted the base replica; None where nobody did.
    """

    name: str
    volumes: tuple[tuple[str, str, str], ...]
    instance_types: tuple[str, ...]
    used_gib: tuple[float, float]
    throughputs: tuple[int, ...]
    changes: Mapping[str, Any]
    log_gib: tuple[float, float] = (4.0, 20.0)
    gap_hours: tuple[float, float] = (4.0, 26.0)
    backed_up_hours: tuple[float, float] | None = None


def _volumes(kind: Kind, throughput: int) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "device": f"/dev/sd{'fghijklmnop'[number]}",
            "mount_point": mount_point,
            "filesystem": "xfs",
            "layout": layout,
            "volume_type": "gp3",
            "iops": max(3_000, 4 * throughput) if name != "log" else 3_000,
            "throughput_mib_per_s": throughput if name != "log" else 125,
        }
        for number, (name, mount_point, layout) in enumerate(kind.volumes)
    ]


_DATA, _LOG = "/var/lib/mysql", "/var/lib/mysql-log"
KINDS = (
    Kind(
        "shop",
        (("data", _DATA, "single"), ("log", _LOG, "single")),
        ("r6i.large", "r6i.xlarge"),
        (30, 250),
        (125, 250),
        {"retirement": {"idle_seconds": 60, "park": "never"}},
    ),
    Kind(
        "bank",
        tuple((f"data{number}" if number else "data", _DATA, "lvm_striped") for number in range(4)),
        ("r6i.2xlarge", "r6i.4xlarge"),
        (300, 1_200),
        (250, 500),
        {"initialization_rate_mib_per_s": 200, "retirement": {"idle_seconds": 60, "park": "never"}},
        backed_up_hours=(6.0, 30.0),
    ),
    Kind(
        "search",
        (
            *((f"data{number}" if number else "data", _DATA, "raid10") for number in range(4)),
            ("log", _LOG, "single"),
        ),
        ("r6i.4xlarge", "r6i.8xlarge"),
        (800, 2_500),
        (250, 500),
        {
            "prewarm": {"serve_when": "hot", "background_rate_mib_per_s": 32},
            "retirement": {"idle_seconds": 60, "park": "always"},
        },
        gap_hours=(0.3, 3.0),
    ),
    Kind(
        "archive",
        (("data", _DATA, "single"),),
        ("r6i.2xlarge", "r6i.4xlarge"),
        (1_500, 4_500),
        (500, 1_000),
        {"read_endpoint": by_name("archive"), "retirement": {"idle_seconds": 60, "park": "auto"}},
        gap_hours=(2.0, 12.0),
        backed_up_hours=(6.0, 30.0),
    ),
)
_COPIES = {"raid10": 2}


def drawn(kind: Kind, dice: random.Random) -> Truth:
    """One cluster of the kind."""
    used = math.exp(dice.uniform(*(math.log(one) for one in kind.used_gib))) * GIB
    data = [(name, layout) for name, mount_point, layout in kind.volumes if mount_point == _DATA]
    each = used * _COPIES.get(data[0][1], 1) / len(data)
    bytes_by_name = {name: each for name, _ in data}
    if len(data) < len(kind.volumes):
        bytes_by_name["log"] = dice.uniform(*kind.log_gib) * GIB
    fill = dice.uniform(0.45, 0.8)
    sizes = {name: 10 * math.ceil(amount / GIB / fill / 10) for name, amount in bytes_by_name.items()}
    machine = dice.choice(kind.instance_types)
    made = settings(
        kind.name,
        **{
            "instance_type": machine,
            "volumes": _volumes(kind, dice.choice(kind.throughputs)),
            "max_replicas": 4,
            "ramp": {"shares": [0.1, 0.3, 0.6, 1.0], "step_seconds": 300, "window_seconds": 30},
            "limits": {
                "max_hourly_cost_usd": 100.0,
                "minimum_lifetime_minutes": 0,
                "prewarm_deadline_minutes": 2880,
            },
            **kind.changes,
        },
    )
    memory = (TYPES[machine].memory_mib or 0.0) * MIB
    return Truth(
        settings=made,
        size_gib=sizes,
        used=bytes_by_name,
        growth_per_day=dice.uniform(0.0, 0.02),
        churn_share=dice.uniform(0.05, 0.4),
        write_mib_per_s=math.exp(dice.uniform(math.log(0.3), math.log(8.0))),
        freed_share=dice.uniform(0.0, 0.25),
        hot_share=min(0.9, dice.uniform(1.0, 3.0) * 0.7 * memory / used) * dice.uniform(0.5, 1.0),
        snapshot_overhead=dice.uniform(25, 120),
        snapshot_mib_per_s=110 * spread(dice, 0.35),
        hydration_mib_per_s=90 * spread(dice, 0.45),
        boot_factor=dice.uniform(0.7, 1.8),
        prepare_seconds=dice.uniform(5, 45),
        assemble_seconds=dice.uniform(3, 8) * (1 if data[0][1] == "single" else 3),
        planning_seconds=5 + 10 * used / (1024 * GIB) * spread(dice, 0.4),
        proof_seconds=dice.uniform(60, 260),
        recovery_seconds=dice.uniform(10, 240),
        apply_speed=1 + max(1.5, 3 * spread(dice, 0.5)),
        cold_apply=dice.uniform(0.6, 1.0),
        pool_bytes=0.7 * memory * dice.uniform(0.6, 1.0),
        pool_mib_per_s=300 * spread(dice, 0.5),
    )
