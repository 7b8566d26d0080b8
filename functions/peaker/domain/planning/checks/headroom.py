"""Checks whether a run has room: initialization rate, zones, memory; and binary logs for the whole time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peaker.domain.document.plan import Check, Number, Verdict
from peaker.domain.limits.account_limits import LEAST_RATE, RegionRate
from peaker.domain.reading import Reading, Unknown

# The source may purge a little early, and a run may take longer than its p90.
BINLOG_SHARE = 0.8
# mysqld needs more than its buffer pool: connections, sort buffers, the system.
POOL_SHARE_WARN, POOL_SHARE_REFUSE = 0.8, 0.95


def binary_logs(lead_p90_seconds: float | None, kept_seconds: Reading) -> Check:
    """Whether the source keeps its binary logs from the snapshot to the caught-up replica (I11).

    The snapshot is the oldest position; the whole p90 of the lead time must lie within the kept time. `kept_seconds` 0
    never purges by age.
    """
    name = "binary logs"
    if lead_p90_seconds is None:
        return Check(name=name, verdict="unknown", detail="the lead time is unknown")
    numbers: dict[str, Number] = {"lead_p90_seconds": round(lead_p90_seconds, 1)}
    if isinstance(kept_seconds, Unknown):
        return Check(
            name=name,
            verdict="unknown",
            detail=f"{kept_seconds.why}; the run itself asks the source before it replicates (I11)",
            remedy="peaker prepare-base asks it now",
            numbers=numbers,
        )
    numbers["kept_seconds"] = kept_seconds.value
    if kept_seconds.value <= 0:
        return Check(name=name, verdict="pass", detail="the source never purges them by age", numbers=numbers)
    share = lead_p90_seconds / kept_seconds.value
    detail = (
        f"9 of 10 builds have caught up {lead_p90_seconds / 3600:.1f} h after the decision, "
        f"the source keeps {kept_seconds.value / 3600:.1f} h"
    )
    remedy = f"raise binlog_expire_logs_seconds of the source to {int(lead_p90_seconds / BINLOG_SHARE) + 1} at least"
    return _graded(name, share, (BINLOG_SHARE, 1.0), detail, remedy, numbers)


def _graded(
    name: str,
    share: float,
    limits: tuple[float, float],
    detail: str,
    remedy: str,
    numbers: dict[str, Number],
) -> Check:
    """Warns above the first of the limits, refuses above the second."""
    if share <= limits[0]:
        return Check(name=name, verdict="pass", detail=detail, numbers=numbers)
    verdict: Verdict = "refuse" if share > limits[1] else "warn"
    return Check(name=name, verdict=verdict, detail=detail, remedy=remedy, numbers=numbers)


def initialization_rate(wanted_mib_per_s: float, region: RegionRate, rate_mib_per_s: int | None) -> Check:
    """Whether the batch's volumes ask for more initialization rate than the region's quota allows.

    `rate_mib_per_s` is the settings' rate of one volume. It refuses nothing: a volume whose rate EBS refuses is made at
    the default rate.
    """
    fits = wanted_mib_per_s <= region.mib_per_s
    detail = f"{wanted_mib_per_s:,.0f} MiB/s of {region.mib_per_s:,.0f}, {region.basis}"
    more = "; volumes whose rate is refused are made at the default rate"
    remedy = (
        "ask AWS for more (Service Quotas, ebs, L-A37D9CF3), or lower initialization_rate_mib_per_s "
        f"({rate_mib_per_s or 0} MiB/s a volume; {LEAST_RATE} is the least)"
    )
    return Check(
        name="initialization rate",
        verdict="pass" if fits else "warn",
        detail=detail if fits else detail + more,
        remedy="" if fits else remedy,
        numbers={"wanted_mib_per_s": wanted_mib_per_s, "quota_mib_per_s": region.mib_per_s},
    )


def zones_in_order(zones: Sequence[str], counts: Mapping[str, int]) -> Check:
    """Where capacity is asked for, one zone after the other; a single zone has no second try."""
    shown = ", then ".join(f"{zone} (replicas: {counts.get(zone, 0)})" for zone in zones)
    numbers: dict[str, Number] = {"zones": len(zones)}
    if len(zones) > 1:
        return Check(name="capacity", verdict="pass", detail=shown, numbers=numbers)
    detail = f"{shown or 'no zone'}: where it has no capacity, no other zone is asked"
    remedy = "name a subnet of a second zone"
    return Check(name="capacity", verdict="warn", detail=detail, remedy=remedy, numbers=numbers)


def buffer_pool(pool_bytes: Reading, memory_mib: Reading, instance_type: str) -> Check:
    """Whether the newest donor's buffer pool fits the instance: `pool_bytes` is that of its page list."""
    if isinstance(pool_bytes, Unknown) or isinstance(memory_mib, Unknown):
        why = next(one.why for one in (pool_bytes, memory_mib) if isinstance(one, Unknown))
        return Check(name="memory", verdict="unknown", detail=why)
    pool, memory = pool_bytes.value / 1024**2, memory_mib.value
    share = pool / memory if memory > 0 else float("inf")
    detail = (
        f"the newest donor held {pool:,.0f} MiB in its buffer pool, "
        f"{share:.0%} of the {memory:,.0f} MiB of {instance_type}"
    )
    remedy = (
        f"take a larger instance_type, or innodb_buffer_pool_size {int(memory * POOL_SHARE_WARN)} MiB in the "
        "image's configuration"
    )
    numbers: dict[str, Number] = {"pool_mib": round(pool, 1), "memory_mib": memory}
    return _graded("memory", share, (POOL_SHARE_WARN, POOL_SHARE_REFUSE), detail, remedy, numbers)
