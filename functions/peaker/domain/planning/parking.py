"""Park or retire, return or build: both compared in seconds to service and in USD. Pure.

A replica that stops costs its volumes by the hour; one that is deleted costs its rebuilding when it is needed
again. Nobody knows when that is. Parking until the hours have cost as much as the rebuilding, and retiring then,
never costs more than twice what the best choice would have cost in hindsight (the ski-rental bound).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from peaker.domain.document.disposal import Disposal, ParkingFigures, ParkPolicy
from peaker.domain.instants import seconds_between, to_iso
from peaker.domain.planning.lead_time import LeadTime, LeadTimeInputs, predict_lead_time, predict_return
from peaker.domain.planning.prices import PriceTable, total, usd
from peaker.domain.reading import Known, Reading
from peaker.domain.replicas.fleet import FleetState, Parking, Replica
from peaker.domain.replicas.inventory import Volume
from peaker.domain.runs.past_runs import PastSteps, measured_return_speed
from peaker_contract.cluster import ClusterSettings
from peaker_contract.steps import Part
from peaker_contract.tags import OWNER_TAG, RUN_TAG

# A return must find the source's binary logs from where it stopped; the source may purge a little early.
BINLOG_SHARE = 0.8
# Stopping for less is not worth the stop: EC2 bills the first minute of each start, and pages in memory are lost.
LEAST_PARKED_HOURS = 1.0
# A replica that is not there after this long will not be in time for the peak that asked for it: no run waits longer.
CATCH_UP_WITHIN_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Expiry:
    """Until when a parked replica may stand, and what sets the limit; None when nothing does."""

    until: datetime | None
    reason: str


def parking_figures(
    replica: Replica,
    settings: ClusterSettings,
    prices: PriceTable,
    inputs: LeadTimeInputs,
    past: PastSteps,
) -> ParkingFigures:
    """The figures of one replica; its volumes must be known, the root volume among them."""
    build = predict_lead_time(inputs, past).p50_seconds
    parked_hourly = volumes_hourly(replica.volumes, prices)
    instance = prices.instance_hour(replica.instance.instance_type)
    serving = total((instance, parked_hourly))
    rate = settings.initialization_rate_mib_per_s
    hydration = total(
        prices.initialization(one.size_gib, rate) for one in replica.volumes if one.name != "root"
    )
    running = Known(serving.value * build / 3600) if isinstance(serving, Known) else serving
    speed = measured_return_speed(past, inputs.apply_speed)
    return ParkingFigures(
        return_seconds=round(predict_return(inputs, 0.0, past).p50_seconds, 1),
        build_seconds=round(build, 1),
        catch_up_per_hour=round(3600 / (speed - 1), 1),
        parked_hourly_usd=usd(parked_hourly, 5),
        serving_hourly_usd=usd(serving, 5),
        rebuild_usd=usd(total((hydration, running)), 4),
    )


def volumes_hourly(volumes: Sequence[Volume], prices: PriceTable) -> Reading:
    """USD per hour of volumes that stand, whether their instance runs or not."""
    return total(
        prices.volume_hour(one.volume_type, one.size_gib, one.iops or 3000, one.throughput_mib_per_s or 125)
        for one in volumes
    )


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


def why_expired(parking: Parking, now: datetime) -> str | None:
    """Why a parked replica is not worth its volumes any more; None while it is."""
    if parking.spent is not None:
        return parking.spent
    if parking.until is not None and now >= parking.until:
        return f"expired at {to_iso(parking.until)}: {parking.until_reason}"
    return None


def why_not_returned(replica: Replica, environment: str, now: datetime) -> str | None:
    """Why this parked replica cannot come back now; None when it can."""
    parking = _standing(replica, environment)
    if isinstance(parking, str):
        return parking
    if parking.failed_return is not None:
        return f"an earlier return failed: {parking.failed_return}"
    return why_expired(parking, now)


def _standing(replica: Replica, environment: str) -> Parking | str:
    """How it stands, or why it is not there to be started: stopped, whole, and this environment's."""
    row, tags = replica.ledger_row, replica.instance.tags
    if row is None or row.parking is None or not replica.is_parked:
        return "is not parked"
    if tags.get(OWNER_TAG) != environment or tags.get(RUN_TAG) != row.run_id:
        return "owner tag, run tag and ledger row do not agree (I1)"
    if replica.instance.state != "stopped":
        return f"its instance is {replica.instance.state}, not stopped"
    if row.parking.incomplete_since is not None:
        return f"a volume of it is missing since {to_iso(row.parking.incomplete_since)}"
    return row.parking


def not_returned(fleet: FleetState, environment: str, now: datetime) -> dict[str, str]:
    """By id, why parked replicas cannot come back as they are."""
    found = {one.instance_id: why_not_returned(one, environment, now) for one in fleet.parked}
    return {name: why for name, why in found.items() if why is not None}


def returnable(fleet: FleetState, environment: str, now: datetime) -> list[Replica]:
    """Parked replicas that can come back, the one that stopped last first: it has the least to catch up."""
    found = [one for one in fleet.parked if why_not_returned(one, environment, now) is None]
    return sorted(found, key=lambda one: (parked_seconds(one, now), one.instance_id))


def parked_seconds(replica: Replica, now: datetime) -> float:
    """Seconds since it stopped; 0 for one that is not parked."""
    row = replica.ledger_row
    return 0.0 if row is None or row.parking is None else seconds_between(row.parking.parked_at, now)


def why_too_far_behind(lead: LeadTime) -> str | None:
    """Why a return of this prediction would be given up; None where its catch-up is waited for."""
    seconds = lead.component(Part.CATCH_UP).p50_seconds
    if seconds <= CATCH_UP_WITHIN_SECONDS:
        return None
    hours = CATCH_UP_WITHIN_SECONDS / 3600
    return f"it would replay for {seconds / 3600:.1f} h, and a run waits for {hours:g} h at most"
