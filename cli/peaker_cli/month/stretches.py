"""Receipts as stretches of time: when each peak replica ran, when it stood parked, and what each stretch cost. Pure.

A replica has several receipts: of the run that made it ready, and of the one that took it away, whose cost has all
hours since the start. Of each stretch the last receipt counts, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from peaker.domain.instants import from_iso, seconds_between
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState

_SERVES = frozenset({"succeeded", "rolled_forward"})
# The start of a stretch follows from its hours, which a receipt has to a third of a second.
_SAME_START_SECONDS = 2.0


@dataclass(frozen=True)
class Stretch:
    """One time that a peak replica ran. `until` is None while it runs; `usd` is the last receipt's, None where unknown.

    `hourly` and `once` are USD; `served_from` is when it had its full share. `failed`: it never served.
    `wasted_hourly` is what was provisioned above the instance's baseline. `run_id` is the run that began it, `plan`
    that run's.
    """

    replica: str
    run_id: str
    since: datetime
    until: datetime | None
    hourly: float | None
    once: float | None
    usd: float | None
    failed: bool = False
    returned: bool = False
    served_from: datetime | None = None
    needed_at: datetime | None = None
    wasted_hourly: float = 0.0
    plan: Mapping[str, Any] | None = None

    def hours(self, start: datetime, end: datetime) -> float:
        """Hours between these two, within the stretch."""
        first, last = max(self.since, start), min(self.until or end, end)
        return max(0.0, seconds_between(first, last) / 3600)

    def cost(self, start: datetime, end: datetime) -> float | None:
        """USD of these hours; what is paid once belongs to the start. A whole stretch costs what its receipt says."""
        if self.until is not None and start <= self.since and self.until <= end:
            return self.usd
        if self.hourly is None or self.once is None:
            return None
        return self.hourly * self.hours(start, end) + (self.once if start <= self.since < end else 0.0)


@dataclass(frozen=True)
class ParkedTime:
    """A replica that stood with its volumes alone."""

    replica: str
    since: datetime
    until: datetime | None
    hourly: float | None

    def hours(self, start: datetime, end: datetime) -> float:
        """Hours between these two, within the time."""
        return max(0.0, seconds_between(max(self.since, start), min(self.until or end, end)) / 3600)


def stretches_of(receipts: Iterable[Mapping[str, Any]]) -> list[Stretch]:
    """All stretches that these receipts tell of, in order of their start."""
    found: list[Stretch] = []
    for receipt in sorted(receipts, key=lambda one: str(one["finished_at"])):
        if receipt.get("replica") is None or receipt.get("cost") is None:
            continue
        if receipt["operation"] == "scale_out":
            found.append(_begun(receipt))
        elif receipt["operation"] == "scale_in" and receipt["outcome"] in _SERVES:
            _end(found, receipt)
    return sorted(found, key=lambda one: (one.since, one.replica))


def _begun(receipt: Mapping[str, Any]) -> Stretch:
    cost, finished = receipt["cost"], from_iso(str(receipt["finished_at"]))
    plan, lead = receipt.get("plan") or {}, receipt.get("forecast_lead") or {}
    failed = receipt["outcome"] not in _SERVES
    return Stretch(
        replica=str(receipt["replica"]["instance_id"]),
        run_id=str(receipt["run_id"]),
        since=_since(receipt),
        until=finished if failed else None,
        hourly=cost["hourly"],
        once=cost["once"],
        usd=cost["so_far"] if failed else None,
        failed=failed,
        returned=receipt["replica"]["built_by"] != receipt["run_id"],
        served_from=None if failed else _instant(lead.get("serving_at")) or finished,
        needed_at=_instant(lead.get("load_crossed_at")),
        wasted_hourly=_wasted_hourly(plan),
        plan=plan,
    )


def _end(found: list[Stretch], receipt: Mapping[str, Any]) -> None:
    """Close the replica's open stretch; without one in these receipts, the hours tell when it began."""
    replica, finished, since = str(receipt["replica"]["instance_id"]), receipt["finished_at"], _since(receipt)
    cost = receipt["cost"]
    for index, one in enumerate(found):
        same = one.replica == replica and one.until is None
        if same and abs(seconds_between(one.since, since)) <= _SAME_START_SECONDS:
            found[index] = replace(one, until=from_iso(str(finished)), usd=cost["so_far"])
            return
    found.append(
        Stretch(
            replica=replica,
            run_id=str(receipt["replica"]["built_by"]),
            since=since,
            until=from_iso(str(finished)),
            hourly=cost["hourly"],
            once=cost["once"],
            usd=cost["so_far"],
            served_from=since,
        )
    )


def parked_times(
    receipts: Sequence[Mapping[str, Any]], stretches: Sequence[Stretch], rows: Mapping[str, ReplicaRow]
) -> list[ParkedTime]:
    """From each park until the replica's next stretch, its retirement, or now (None)."""
    found = []
    for receipt in receipts:
        parking = receipt.get("parking")
        if not parking or parking["action"] != "park" or receipt["outcome"] not in _SERVES:
            continue
        if receipt.get("replica") is None:
            continue
        replica, since = str(receipt["replica"]["instance_id"]), from_iso(str(receipt["finished_at"]))
        later = [one.since for one in stretches if one.replica == replica and one.since >= since]
        row = rows.get(replica)
        if not later and row is not None and row.state is ReplicaState.RETIRED and row.changed_at >= since:
            later = [row.changed_at]
        found.append(ParkedTime(replica, since, min(later, default=None), parking["parked_hourly_usd"]))
    return found


def _since(receipt: Mapping[str, Any]) -> datetime:
    return from_iso(str(receipt["finished_at"])) - timedelta(hours=float(receipt["cost"]["replica_hours"]))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)


def _wasted_hourly(plan: Mapping[str, Any]) -> float:
    wasted = [one["numbers"].get("wasted_usd_month") for one in plan.get("checks") or ()]
    return sum(one for one in wasted if one) / 730.0
