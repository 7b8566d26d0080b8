"""Whether there is room for what a run makes: quota, capacity, memory; and binary logs for the whole time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peaker.domain.document.plan import Check, Number
from peaker.domain.limits.account_limits import LEAST_RATE, RegionRate
from peaker.domain.reading import Reading, Unknown

# The source may purge a little early, and a run may take longer than its p90.
BINLOG_SHARE = 0.8
# mysqld needs more than its buffer pool: connections, sort buffers, the system.
POOL_SHARE_WARN, POOL_SHARE_REFUSE = 0.8, 0.95


def binary_logs(lead_p90_seconds: float | None, kept_seconds: Reading) -> Check:
    """Whether the source keeps its binary logs from the snapshot to the caught-up replica (I11).

    The snapshot is the oldest position; the whole p90 of the lead time must lie within what is kept. `kept_seconds` 0
    never purges by age.
    """
    name = "binary logs"
    if lead_p90_seconds is None:
        return Check(name=name, verdict="unknown", detail="the lead time is unknown")
    if isinstance(kept_seconds, Unknown):
        return Check(
            name=name,
            verdict="unknown",
            detail=f"{kept_seconds.why}; the run itself asks the source before it replicates (I11)",
            remedy="peaker prepare-base asks it now",
            numbers={"lead_p90_seconds": round(lead_p90_seconds, 1)},
        )
    numbers = {"lead_p90_seconds": round(lead_p90_seconds, 1), "kept_seconds": kept_seconds.value}
    if kept_seconds.value <= 0:
        return Check(name=name, verdict="pass", detail="the source never purges them by age", numbers=numbers)
    share = lead_p90_seconds / kept_seconds.value
    detail = (
        f"9 of 10 builds have caught up {lead_p90_seconds / 3600:.1f} h after the decision, "
        f"the source keeps {kept_seconds.value / 3600:.1f} h"
    )
    remedy = f"raise binlog_expire_logs_seconds of the source to {int(lead_p90_seconds / BINLOG_SHARE) + 1} at least"
    if share > 1:
        return Check(name=name, verdict="refuse", detail=detail, remedy=remedy, numbers=numbers)
    if share > BINLOG_SHARE:
        return Check(name=name, verdict="warn", detail=detail, remedy=remedy, numbers=numbers)
    return Check(name=name, verdict="pass", detail=detail, numbers=numbers)


def initialization_rate(wanted_mib_per_s: float, region: RegionRate, rate_mib_per_s: int | None) -> Check:
    """Whether the batch's volumes ask for more initialization rate than the region's quota allows.

    `rate_mib_per_s` is the settings' rate of one volume. It refuses nothing: a volume whose rate EBS refuses is made at
    the default rate.
    """
    name = "initialization rate"
    numbers: dict[str, Number] = {
        "wanted_mib_per_s": wanted_mib_per_s,
        "quota_mib_per_s": region.mib_per_s,
    }
    detail = f"{wanted_mib_per_s:,.0f} MiB/s of {region.mib_per_s:,.0f}, {region.basis}"
    if wanted_mib_per_s <= region.mib_per_s:
        return Check(name=name, verdict="pass", detail=detail, numbers=numbers)
    return Check(
        name=name,
        verdict="warn",
        detail=f"{detail}; volumes whose rate is refused are made at the default rate",
        remedy="ask AWS for more (Service Quotas, ebs, L-A37D9CF3), or lower initialization_rate_mib_per_s "
        f"({rate_mib_per_s or 0} MiB/s a volume; {LEAST_RATE} is the least)",
        numbers=numbers,
    )


def zones_in_order(zones: Sequence[str], counts: Mapping[str, int]) -> Check:
    """Where capacity is asked for, one zone after the other; a single zone has no second try."""
    shown = ", then ".join(f"{zone} ({counts.get(zone, 0)} replicas)" for zone in zones)
    if len(zones) > 1:
        return Check(name="capacity", verdict="pass", detail=shown, numbers={"zones": len(zones)})
    return Check(
        name="capacity",
        verdict="warn",
        detail=f"{shown or 'no zone'}: where it has no capacity, no other zone is asked",
        remedy="name a subnet of a second zone",
        numbers={"zones": len(zones)},
    )


def buffer_pool(pool_bytes: Reading, memory_mib: Reading, instance_type: str) -> Check:
    """Whether what a donor held in its buffer pool fits the instance: `pool_bytes` is the newest page list's."""
    name = "memory"
    for reading in (pool_bytes, memory_mib):
        if isinstance(reading, Unknown):
            return Check(name=name, verdict="unknown", detail=reading.why)
    pool, memory = _value(pool_bytes) / 1024**2, _value(memory_mib)
    share = pool / memory if memory > 0 else float("inf")
    detail = (
        f"the newest donor held {pool:,.0f} MiB in its buffer pool, "
        f"{share:.0%} of the {memory:,.0f} MiB of {instance_type}"
    )
    numbers = {"pool_mib": round(pool, 1), "memory_mib": memory}
    if share <= POOL_SHARE_WARN:
        return Check(name=name, verdict="pass", detail=detail, numbers=numbers)
    return Check(
        name=name,
        verdict="refuse" if share > POOL_SHARE_REFUSE else "warn",
        detail=detail,
        remedy=f"take a larger instance_type, or innodb_buffer_pool_size {int(memory * POOL_SHARE_WARN)} MiB in the "
        "image's configuration",
        numbers=numbers,
    )


def _value(reading: Reading) -> float:
    return 0.0 if isinstance(reading, Unknown) else reading.value
