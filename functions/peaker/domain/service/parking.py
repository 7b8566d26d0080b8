"""Park or retire: both compared in seconds to service and in USD. Pure.

A replica that stops costs its volumes by the hour; one that is deleted costs its rebuilding when it is needed
again. Nobody knows when that is. Parking until the hours have cost as much as the rebuilding, and retiring then,
never costs more than twice what the best choice would have cost in hindsight (the ski-rental bound).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from peaker.domain.document.disposal import Disposal, ParkingFigures, ParkPolicy
from peaker.domain.instants import seconds_between

# A return must find the source's binary logs from where it stopped; the source may purge a little early.
BINLOG_SHARE = 0.8
# Stopping for less is not worth the stop: EC2 bills the first minute of each start, and pages in memory are lost.
LEAST_PARKED_HOURS = 1.0


@dataclass(frozen=True)
class Expiry:
    """Until when a parked replica may stand, and what sets the limit; None when nothing does."""

    until: datetime | None
    reason: str


def decide_disposal(figures: ParkingFigures, policy: ParkPolicy) -> Disposal:
    """Park or retire. With auto: park while it is known to be quicker and cheaper for an hour at least."""
    action, reason = _disposal(figures, policy)
    return Disposal(action=action, policy=policy, reason=reason, figures=figures)


def _disposal(figures: ParkingFigures, policy: ParkPolicy) -> tuple[Literal["park", "retire"], str]:
    if policy == "never":
        return "retire", "retirement.park is never"
    shown = (
        f"back in {figures.return_seconds / 60:.0f} min against {figures.build_seconds / 60:.0f} min anew, "
        f"standing costs {_hourly(figures.parked_hourly_usd)}"
    )
    if policy == "always":
        return "park", f"retirement.park is always; {shown}"
    if figures.rebuild_usd is None or figures.break_even_hours is None:
        return "retire", f"what rebuilding costs is unknown, so it cannot be compared (I4); {shown}"
    shown += f", rebuilding ${figures.rebuild_usd:.2f}"
    if figures.return_seconds >= figures.build_seconds:
        return "retire", f"coming back takes as long as building anew: {shown}"
    hours = min(one for one in (figures.break_even_hours, figures.faster_for_hours) if one is not None)
    if hours < LEAST_PARKED_HOURS:
        return "retire", f"parking pays for {hours:.1f} h only, least is {LEAST_PARKED_HOURS:g} h: {shown}"
    return "park", f"{shown}: parking pays for {hours:.1f} h"


def _hourly(amount: float | None) -> str:
    return "an unknown price" if amount is None else f"${amount:.4f}/h"


def parked_until(figures: ParkingFigures, parked_at: datetime, binlog_expire_seconds: float | None) -> Expiry:
    """The earliest of: binary logs gone (with a safety share), standing dearer, catching up slower than rebuilding."""
    limits: list[tuple[float, str]] = []
    if binlog_expire_seconds is not None and binlog_expire_seconds > 0:
        hours = binlog_expire_seconds / 3600
        limits.append(
            (
                BINLOG_SHARE * hours,
                f"{BINLOG_SHARE:.0%} of the {hours:.1f} h that the source keeps binary logs",
            )
        )
    if figures.break_even_hours is not None:
        limits.append(
            (
                figures.break_even_hours,
                f"standing at {_hourly(figures.parked_hourly_usd)} has then cost the ${figures.rebuild_usd:.2f} "
                "of rebuilding",
            )
        )
    if figures.faster_for_hours is not None:
        limits.append((figures.faster_for_hours, "catching up then takes as long as building anew"))
    if not limits:
        return Expiry(None, "no limit is known")
    hours, reason = min(limits)
    return Expiry(parked_at + timedelta(hours=hours), f"{hours:.1f} h: {reason}")


def why_not_worth_parking(
    policy: ParkPolicy, binlog_expire_seconds: float | None, expiry: Expiry, parked_at: datetime
) -> str | None:
    """Why a replica whose database has stopped is retired after all; None when it is parked.

    The source's binary log retention is known only then. Only auto weighs it; always parks, and the return checks.
    """
    if policy != "auto":
        return None
    if binlog_expire_seconds is None:
        return "how long the source keeps binary logs is unknown, so nobody knows whether it could come back (I4)"
    if expiry.until is None:
        return None
    hours = seconds_between(parked_at, expiry.until) / 3600
    if hours >= LEAST_PARKED_HOURS:
        return None
    return f"it could stand for {hours:.1f} h only, least is {LEAST_PARKED_HOURS:g} h ({expiry.reason})"
