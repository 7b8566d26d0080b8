"""A month's bill of a cluster: base and peak, parked and idle, and what would have been cheaper. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from peaker.domain.instants import seconds_between, to_iso

from peaker_cli.month.stretches import ParkedTime, Stretch

Load = Sequence[tuple[datetime, float]]


@dataclass(frozen=True)
class BaseReplica:
    """A base replica as EC2 has it now; `hourly` in USD, None where no price is known, and `why_unknown` then.

    Without `runs` it is stopped: it costs, and carries no load.
    """

    instance_id: str
    since: datetime
    hourly: float | None
    why_unknown: str | None = None
    runs: bool = True


@dataclass(frozen=True)
class Month:
    """A month holds the inputs of a bill. `until` is the month's end, or now while it lasts.

    `checked_since` is Peaker's first look at the cluster, None where it is not known.

    `load` and `capacity` are in units of the load metric, of which `per_second` makes units per second; a point of
    `load` is of `load_period_seconds`.
    """

    cluster: str
    start: datetime
    until: datetime
    stretches: Sequence[Stretch]
    parked: Sequence[ParkedTime]
    base: Sequence[BaseReplica]
    load: Load
    capacity: float
    per_second: float = 1.0
    load_period_seconds: float = 300.0
    checked_since: datetime | None = None

    @property
    def compared_from(self) -> datetime:
        """Returns the time from which replicas that are always on would have run in Peaker's place."""
        return max(self.start, self.checked_since or self.start)

    @property
    def load_from(self) -> datetime | None:
        return next((at for at, _ in self.load if self.start <= at < self.until), None)

    def has_load_since(self, at: datetime) -> bool:
        """Tells whether the load is known from this time on, or from the month's start where that is later."""
        first = self.load_from
        return first is not None and seconds_between(max(at, self.start), first) <= self.load_period_seconds

    def base_running(self, at: datetime) -> int:
        """Counts the base replicas that ran at this time."""
        return sum(one.runs and one.since <= at for one in self.base)

    def running(self, at: datetime) -> list[Stretch]:
        """Returns the peak replicas that ran at this time, those that never served left out."""
        return [
            one
            for one in self.stretches
            if not one.failed and one.since <= at and (one.until or self.until) > at
        ]


def bill(month: Month) -> dict[str, Any]:
    """Returns the document. Dollars are rounded to the cent at the end alone; None where a price was not known."""
    start, until = month.start, month.until
    seen = [one for one in month.stretches if one.hours(start, until) > 0]
    peaks = [_peak(month, one) for one in seen]
    served = [one for one in seen if not one.failed]
    receipts = [
        one.usd for one in seen if one.until is not None and start <= one.since and one.until <= until
    ]
    open_ones = [
        one.cost(start, until) for one in seen if one.until is None or one.since < start or one.until > until
    ]
    peak_usd = _sum(one.cost(start, until) for one in seen)
    parked_usd = _sum(_times(one.hourly, one.hours(start, until)) for one in month.parked)
    base_usd = _sum(_times(one.hourly, _base_hours(one, month)) for one in month.base)
    return {
        "cluster": month.cluster,
        "from": to_iso(start),
        "until": to_iso(until),
        "base": {
            "replicas": len(month.base),
            "replica_hours": round(sum(_base_hours(one, month) for one in month.base if one.runs), 2),
            "usd": _cents(base_usd),
            "why_unknown": next((one.why_unknown for one in month.base if one.why_unknown), None),
        },
        "peak": {
            "stretches": len(served),
            "replica_hours": round(sum(one.hours(start, until) for one in seen), 2),
            "usd": _cents(peak_usd),
            "failed_usd": _cents(_sum(one.cost(start, until) for one in seen if one.failed)),
        },
        "parked": {
            "replica_hours": round(sum(one.hours(start, until) for one in month.parked), 2),
            "usd": _cents(parked_usd),
        },
        "idle": _idle(month),
        "load": {
            "period_seconds": month.load_period_seconds,
            "from": to_iso(month.load_from) if month.load_from else None,
        },
        "total_usd": _cents(_sum((base_usd, peak_usd, parked_usd))),
        "always_on": _always_on(month, served),
        "mismatch_usd": _cents(sum(one.wasted_hourly * one.hours(start, until) for one in seen)),
        "peaks": peaks,
        "cheaper": _cheaper(month, seen),
        "receipts": {
            "stretches": len(receipts),
            "usd": _cents(_sum(receipts)),
            "open_or_across_the_month_usd": _cents(_sum(open_ones)),
        },
    }


def _peak(month: Month, one: Stretch) -> dict[str, Any]:
    usd = one.cost(month.start, month.until)
    queries = _queries(month, one)
    return {
        "replica": one.replica,
        "run_id": one.run_id,
        "since": to_iso(one.since),
        "until": None if one.until is None else to_iso(one.until),
        "returned": one.returned,
        "failed": one.failed,
        "hours": round(one.hours(month.start, month.until), 2),
        "usd": _cents(usd),
        "thousand_queries": None if queries is None else round(queries / 1000, 3),
        "usd_per_thousand_queries": round(1000 * usd / queries, 6) if usd is not None and queries else None,
    }


def _queries(month: Month, one: Stretch) -> float | None:
    """Returns the replica's even share of the load; None without load in all of its time."""
    if one.failed or one.served_from is None or not month.has_load_since(one.served_from):
        return None
    total, seen = 0.0, False
    for (at, load), seconds in _steps(month):
        if one.served_from <= at and at < (one.until or month.until):
            seen = True
            total += (
                load * month.per_second * seconds / max(1, month.base_running(at) + len(month.running(at)))
            )
    return total if seen else None


def _idle(month: Month) -> dict[str, Any]:
    """Hours in which peak replicas ran and the load would have fitted on fewer; unknown without load."""
    if (why := _why_not_idle(month)) is not None:
        return {"replica_hours": None, "usd": None, "why_unknown": why}
    hours, usd = 0.0, 0.0
    for (at, load), seconds in _steps(month):
        running = month.running(at)
        needed = max(0, math.ceil(load / month.capacity - 1e-9) - month.base_running(at))
        idle = max(0, len(running) - needed)
        if idle:
            hours += idle * seconds / 3600
            mean = sum(one.hourly or 0.0 for one in running) / len(running)
            usd += idle * mean * seconds / 3600
    return {"replica_hours": round(hours, 2), "usd": _cents(usd), "why_unknown": None}


def _why_not_idle(month: Month) -> str | None:
    """Returns why idle hours are unknown; None where the load is known for all hours of peak replicas."""
    if month.capacity <= 0:
        return "capacity_per_replica is 0"
    first = month.load_from
    if first is None:
        return "CloudWatch has no point of the load"
    ran = [one for one in month.stretches if not one.failed and one.hours(month.start, month.until) > 0]
    if all(month.has_load_since(one.since) for one in ran):
        return None
    return f"CloudWatch has the load from {first:%Y-%m-%d %H:%M} on alone, and peak replicas ran before"


def _always_on(month: Month, served: Sequence[Stretch]) -> dict[str, Any]:
    """Returns the bill of the highest peak's replicas from Peaker's first look on, at their mean hourly price."""
    marks = sorted({max(one.since, month.start) for one in served})
    most = max((len(month.running(at)) for at in marks), default=0)
    prices = [one.hourly for one in served if one.hourly is not None]
    hourly = sum(prices) / len(prices) if prices else None
    hours = max(0.0, seconds_between(month.compared_from, month.until) / 3600)
    usd = 0.0 if most == 0 else _times(hourly, most * hours)
    return {"peak_replicas": most, "usd": _cents(usd), "from": to_iso(month.compared_from)}


def _cheaper(month: Month, seen: Sequence[Stretch]) -> list[dict[str, Any]]:
    """Lists other settings' savings, the most first. Only what the figures of the month show."""
    found = []
    wasted = sum(one.wasted_hourly * one.hours(month.start, month.until) for one in seen)
    if wasted >= 0.005:
        why = "volumes with what the instance carries, as the plan's checks say"
        found.append({"setting": "volumes: iops, throughput_mib_per_s", "usd": _cents(wasted), "why": why})
    begun = [one for one in seen if month.start <= one.since]
    saved = [one.default_rate_saves_usd for one in begun if one.default_rate_saves_usd is not None]
    if saved:
        builds = f"{len(saved)} build{' was' if len(saved) == 1 else 's were'}"
        why = f"{builds} needed later than one at the default rate is ready in 9 of 10 cases"
        found.append({"setting": "initialization_rate_mib_per_s", "usd": _cents(sum(saved)), "why": why})
    return sorted(found, key=lambda each: -float(str(each["usd"])))


def _steps(month: Month) -> list[tuple[tuple[datetime, float], float]]:
    """Returns each point of the month's load and the seconds until the next one; a gap counts as one usual step."""
    points = [(at, load) for at, load in month.load if month.start <= at < month.until]
    if not points:
        return []
    gaps = [seconds_between(one[0], other[0]) for one, other in pairwise(points)]
    usual = sorted(gaps)[len(gaps) // 2] if gaps else 0.0
    return [(point, min(gap, usual)) for point, gap in zip(points, [*gaps, usual], strict=True)]


def _base_hours(one: BaseReplica, month: Month) -> float:
    return max(0.0, seconds_between(max(one.since, month.start), month.until) / 3600)


def _times(hourly: float | None, hours: float) -> float | None:
    return None if hourly is None else hourly * hours


def _sum(amounts: Any) -> float | None:
    """Adds amounts; None as soon as one is unknown: a part is no sum."""
    found = list(amounts)
    return None if any(one is None for one in found) else math.fsum(found)


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
