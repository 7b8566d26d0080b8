"""Receipts as stretches of time: when each peak replica ran, when it stood parked, and what each stretch cost. Pure.

A replica has several receipts: of the run that made it ready, and of the one that took it away, whose cost has all
hours since the start. Of each stretch the last receipt counts, once. Each member of a batch has a receipt; that of the
first one is the batch's. A replica that the sweep took away has no second receipt: the ledger's row says when it went.
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
    """One time that a peak replica ran. `until` is None while it runs; `usd` is of the whole, None where unknown.

    `hourly` and `once` are USD; `served_from` is when it had its full share. `failed`: it never served.
    `wasted_hourly` is what was provisioned above the instance's baseline. `run_id` is the run that began it.
    `default_rate_saves_usd`: what a build at EBS's default rate, in time for the load too, would have cost less.
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
    wasted_hourly: float = 0.0
    default_rate_saves_usd: float | None = None

    def hours(self, start: datetime, end: datetime) -> float:
        first, last = max(self.since, start), min(self.until or end, end)
        return max(0.0, seconds_between(first, last) / 3600)

    def cost(self, start: datetime, end: datetime) -> float | None:
        """Returns USD of these hours; what is paid once belongs to the start. A whole stretch costs its receipt."""
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
        return max(0.0, seconds_between(max(self.since, start), min(self.until or end, end)) / 3600)


def stretches_of(receipts: Iterable[Mapping[str, Any]], rows: Mapping[str, ReplicaRow]) -> list[Stretch]:
    """Returns all stretches that these receipts tell of, in order of their start."""
    found: list[Stretch] = []
    for receipt in sorted(receipts, key=lambda one: str(one["finished_at"])):
        if receipt.get("replica") is None or receipt.get("cost") is None:
            continue
        if receipt["operation"] == "scale_out":
            found.append(_begun(receipt))
        elif receipt["operation"] == "scale_in" and _did_its_work(receipt):
            _end(found, receipt)
    told = (_until_retired(one, rows.get(one.replica)) for one in found)
    return sorted(told, key=lambda one: (one.since, one.replica))


def _until_retired(one: Stretch, row: ReplicaRow | None) -> Stretch:
    """Closes an open stretch whose replica the ledger says has gone."""
    gone = None if one.until else _retired_at(row, one.since)
    return replace(one, until=gone, usd=one.cost(one.since, gone)) if gone else one


def _did_its_work(receipt: Mapping[str, Any]) -> bool:
    """Tells whether the receipt's own replica serves, or has gone, as intended, whatever became of its batch."""
    of_batch = {one["run_id"]: one["state"] for one in receipt.get("members") or ()}
    own = of_batch.get(receipt["run_id"])
    if own is None:
        return receipt["outcome"] in _SERVES
    return bool(own == ("in_service" if receipt["operation"] == "scale_out" else "gone"))


def _begun(receipt: Mapping[str, Any]) -> Stretch:
    cost, finished = receipt["cost"], from_iso(str(receipt["finished_at"]))
    plan, lead = receipt.get("plan") or {}, receipt.get("forecast_lead") or {}
    failed = not _did_its_work(receipt)
    returned = receipt["replica"]["built_by"] != receipt["run_id"]
    return Stretch(
        replica=str(receipt["replica"]["instance_id"]),
        run_id=str(receipt["run_id"]),
        since=_since(receipt),
        until=finished if failed else None,
        hourly=_amount(cost["hourly"]),
        once=_amount(cost["once"]),
        usd=_amount(cost["so_far"]) if failed else None,
        failed=failed,
        returned=returned,
        served_from=None if failed else _instant(lead.get("serving_at")) or finished,
        wasted_hourly=_wasted_hourly(plan),
        default_rate_saves_usd=None
        if failed or returned
        else _default_rate_saves(plan, _instant(lead.get("load_crossed_at"))),
    )


def _end(found: list[Stretch], receipt: Mapping[str, Any]) -> None:
    """Closes the replica's open stretch; without one in these receipts, the hours tell when it began."""
    replica, finished, since = str(receipt["replica"]["instance_id"]), receipt["finished_at"], _since(receipt)
    cost = receipt["cost"]
    for index, one in enumerate(found):
        same = one.replica == replica and one.until is None
        if same and abs(seconds_between(one.since, since)) <= _SAME_START_SECONDS:
            found[index] = replace(one, until=from_iso(str(finished)), usd=_amount(cost["so_far"]))
            return
    found.append(
        Stretch(
            replica=replica,
            run_id=str(receipt["replica"]["built_by"]),
            since=since,
            until=from_iso(str(finished)),
            hourly=_amount(cost["hourly"]),
            once=_amount(cost["once"]),
            usd=_amount(cost["so_far"]),
            served_from=since,
        )
    )


def parked_times(
    receipts: Sequence[Mapping[str, Any]], stretches: Sequence[Stretch], rows: Mapping[str, ReplicaRow]
) -> list[ParkedTime]:
    """Returns the times from each park until the replica's next stretch, its retirement, or now (None)."""
    found = []
    for receipt in receipts:
        parking = receipt.get("parking")
        if not parking or parking["action"] != "park" or not _did_its_work(receipt):
            continue
        if receipt.get("replica") is None:
            continue
        replica, since = str(receipt["replica"]["instance_id"]), from_iso(str(receipt["finished_at"]))
        later = [one.since for one in stretches if one.replica == replica and one.since >= since]
        until = min(later, default=_retired_at(rows.get(replica), since))
        found.append(ParkedTime(replica, since, until, _amount(parking["parked_hourly_usd"])))
    return found


def _retired_at(row: ReplicaRow | None, since: datetime) -> datetime | None:
    """Returns when the replica went for good, None where it has not since that time."""
    if row is None or row.state is not ReplicaState.RETIRED or row.changed_at < since:
        return None
    return row.changed_at


def _since(receipt: Mapping[str, Any]) -> datetime:
    return from_iso(str(receipt["finished_at"])) - timedelta(
        hours=_amount(receipt["cost"]["replica_hours"]) or 0.0
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)


def _wasted_hourly(plan: Mapping[str, Any]) -> float:
    wasted = [_amount(one["numbers"].get("wasted_usd_month")) for one in plan.get("checks") or ()]
    return sum(one for one in wasted if one) / 730.0


def _default_rate_saves(plan: Mapping[str, Any], needed_at: datetime | None) -> float | None:
    """Returns dollars that a build at EBS's default rate, still in time, would have saved; None for 0."""
    choice = plan.get("choice")
    if not choice or needed_at is None:
        return None
    left = seconds_between(from_iso(plan["planned_at"]), needed_at)
    paid = _amount(choice["options"][choice["index"]]["usd"])
    for one in choice["options"]:
        usd, p90 = _amount(one["usd"]), _amount(one["p90_seconds"])
        if (
            one["action"] == "build"
            and one["rate_mib_per_s"] is None
            and paid is not None
            and usd is not None
        ):
            return paid - usd if paid > usd and p90 is not None and p90 <= left else None
    return None


def _amount(value: Any) -> float | None:
    """Returns a number of dollars, hours or seconds. Raises ValueError for anything else but None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ValueError(f"no amount: {value!r:.60}")
    return float(value)
