"""The IOPS and MiB/s that EC2 promises an instance type for all its volumes together."""

from __future__ import annotations

from dataclasses import dataclass


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
