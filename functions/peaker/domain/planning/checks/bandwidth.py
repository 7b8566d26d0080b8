"""Compares the volumes' IOPS and MiB/s with the instance's baseline: beyond it they are paid for in vain. Pure.

EC2 user guide, "Amazon EBS-optimized instance types": the baseline is always there, the maximum for half an hour a day;
IOPS are of 16 KiB. `BandwidthWeighting` ebs-1 moves network bandwidth to EBS, by a quarter at most, on types that have
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from peaker.domain.document.plan import Check
from peaker.domain.prices.price_table import PriceTable, total
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume
from peaker.domain.replicas.inventory import InstancePromise
from peaker_contract.load_settings import HOURS_PER_MONTH
from peaker_contract.storage_settings import (
    GP3_IOPS,
    GP3_MIB_PER_S,
    GP3_MIB_PER_S_PER_IOPS,
    IO2_IOPS,
    IOPS_PER_GIB,
    io2_mib_per_s,
)

_PAGE_KIB = 16
_WEIGHTED = 1.25
WEIGHTING = "ebs-1"

Quantity = Literal["IOPS", "MiB/s"]


def look_at_bandwidth(
    volumes: Sequence[PlannedVolume],
    instance_type: str,
    promise: InstancePromise | Unknown,
    prices: PriceTable,
) -> list[Check]:
    """IOPS and throughput of all volumes together against the instance; and the cheaper equal where they are more."""
    if isinstance(promise, Unknown):
        return [Check(name="bandwidth", verdict="unknown", detail=promise.why)]
    limits = _limits(promise)
    smaller = cheaper_equal(volumes, limits)
    found = [
        _against(quantity, volumes, smaller, instance_type, promise, baseline)
        for quantity, baseline in limits.items()
    ]
    if any(one.verdict == "warn" for one in found):
        found.append(_cheaper(volumes, smaller, prices))
    return found


def iops_per_gib(volumes: Sequence[PlannedVolume]) -> Check:
    """EBS makes no volume with more IOPS for each GiB; a small donor's volumes may be too small for the settings."""
    name = "IOPS per GiB"
    over = [one for one in volumes if one.iops > _most_iops(one)]
    if not over:
        return Check(name=name, verdict="pass", detail="every volume is large enough for its IOPS")
    detail = "; ".join(
        f"{one.name}: {one.iops:,} IOPS on {one.size_gib} GiB of {one.volume_type}, which has "
        f"{_most_iops(one):,} at most"
        for one in over
    )
    remedy = "lower iops of these volumes, or let the donor's volumes grow"
    return Check(name=name, verdict="refuse", detail=detail, remedy=remedy)


def _most_iops(volume: PlannedVolume) -> int:
    """gp3 has its first 3,000 at any size."""
    return max(_free_iops(volume), volume.size_gib * IOPS_PER_GIB[volume.volume_type])


def _limits(promise: InstancePromise) -> dict[Quantity, float | None]:
    """The baselines. Where EC2 names no IOPS, the bandwidth carries so many pages of InnoDB and no more."""
    amount, iops = promise.baseline_mib_per_s, promise.baseline_iops
    if iops is None and amount is not None:
        iops = float(int(amount * 1024 / _PAGE_KIB))
    return {"IOPS": iops, "MiB/s": amount}


def _amount(volume: PlannedVolume, quantity: Quantity) -> int:
    return volume.iops if quantity == "IOPS" else volume.throughput_mib_per_s


def _against(
    quantity: Quantity,
    volumes: Sequence[PlannedVolume],
    smaller: Sequence[PlannedVolume],
    instance_type: str,
    promise: InstancePromise,
    baseline: float | None,
) -> Check:
    name = f"{quantity} of the volumes"
    if baseline is None:
        return Check(name=name, verdict="unknown", detail=f"EC2 names no baseline of {instance_type}")
    wanted = sum(_amount(one, quantity) for one in volumes)
    shown = " + ".join(f"{one.name} {_amount(one, quantity):,}" for one in volumes)
    detail = f"{shown} = {wanted:,} {quantity}; {instance_type} carries {baseline:,.0f} always"
    most = promise.maximum_iops if quantity == "IOPS" else promise.maximum_mib_per_s
    if most is not None and most > baseline:
        detail += f", {most:,.0f} for half an hour a day"
    numbers = {"provisioned": wanted, "baseline": round(baseline, 2), "maximum": most}
    if wanted <= baseline:
        return Check(name=name, verdict="pass", detail=detail, numbers=numbers)
    needless = wanted - sum(_amount(one, quantity) for one in smaller)
    if needless <= 0:
        return Check(
            name=name, verdict="pass", detail=f"{detail}; the rest is in the volumes' price", numbers=numbers
        )
    remedy = f"provision {wanted - needless:,} {quantity} in all, or take an instance type that carries more"
    if WEIGHTING in promise.bandwidth_weightings:
        more = baseline * _WEIGHTED
        enough = "is enough" if wanted <= more else "is not enough"
        remedy += f"; BandwidthWeighting {WEIGHTING} carries up to {more:,.0f}, which {enough}"
    return Check(name=name, verdict="warn", detail=detail, remedy=remedy, numbers=numbers)


def _cheaper(volumes: Sequence[PlannedVolume], smaller: Sequence[PlannedVolume], prices: PriceTable) -> Check:
    """The same volumes with the instance's baseline, and the dollars that they save in a month."""
    now, then = _monthly(volumes, prices), _monthly(smaller, prices)
    shown = "; ".join(
        f"{one.name} {one.iops:,} IOPS and {one.throughput_mib_per_s:,} MiB/s" for one in smaller
    )
    name = "paid for and not delivered"
    if isinstance(now, Unknown) or isinstance(then, Unknown):
        why = now.why if isinstance(now, Unknown) else then.why if isinstance(then, Unknown) else ""
        return Check(name=name, verdict="warn", detail=f"{shown} would deliver the same; {why}")
    wasted = round(now.value - then.value, 2)
    numbers = {
        "wasted_usd_month": wasted, "now_usd_month": round(now.value, 2), "equal_usd_month": round(then.value, 2)
    }  # fmt: skip
    detail = f"${wasted:.2f} a month of ${now.value:.2f} for each replica, bursts apart"
    return Check(
        name=name,
        verdict="warn",
        detail=detail,
        remedy=f"{shown} deliver the same for ${then.value:.2f}",
        numbers=numbers,
    )


def cheaper_equal(
    volumes: Sequence[PlannedVolume], limits: dict[Quantity, float | None]
) -> list[PlannedVolume]:
    """The volumes with no more than the instance carries in all; free amounts stay, the rest shrinks in proportion."""
    iops = _shrunk([(one.iops, _free_iops(one)) for one in volumes], limits["IOPS"])
    # io2's throughput follows from its IOPS: only gp3's can shrink by itself.
    amounts = _shrunk(
        [
            (
                one.throughput_mib_per_s,
                GP3_MIB_PER_S[0] if one.volume_type == "gp3" else one.throughput_mib_per_s,
            )
            for one in volumes
        ],
        limits["MiB/s"],
    )
    return [
        _valid(one.model_copy(update={"iops": count, "throughput_mib_per_s": amount}))
        for one, count, amount in zip(volumes, iops, amounts, strict=True)
    ]


def _free_iops(volume: PlannedVolume) -> int:
    return GP3_IOPS[0] if volume.volume_type == "gp3" else IO2_IOPS[0]


def _shrunk(amounts: Sequence[tuple[int, int]], limit: float | None) -> list[int]:
    """Each amount between its floor and itself, so that the sum keeps the limit where the floors allow it."""
    excess = sum(amount for amount, _ in amounts) - (limit if limit is not None else float("inf"))
    above = sum(max(0, amount - floor) for amount, floor in amounts)
    if excess <= 0 or above <= 0:
        return [amount for amount, _ in amounts]
    kept = max(0.0, 1 - excess / above)
    return [min(amount, floor + int(max(0, amount - floor) * kept)) for amount, floor in amounts]


def _valid(volume: PlannedVolume) -> PlannedVolume:
    """As EBS makes it: gp3 needs an IOPS for each quarter MiB/s, io2's throughput follows."""
    if volume.volume_type == "io2":
        return volume.model_copy(update={"throughput_mib_per_s": io2_mib_per_s(volume.iops)})
    least = int(volume.throughput_mib_per_s / GP3_MIB_PER_S_PER_IOPS)
    return volume.model_copy(update={"iops": max(volume.iops, least)})


def _monthly(volumes: Sequence[PlannedVolume], prices: PriceTable) -> Reading:
    hourly = total(
        prices.volume_hour(one.volume_type, one.size_gib, one.iops, one.throughput_mib_per_s)
        for one in volumes
    )
    return hourly if isinstance(hourly, Unknown) else replace(hourly, value=hourly.value * HOURS_PER_MONTH)
