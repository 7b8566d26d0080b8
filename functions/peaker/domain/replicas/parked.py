"""Parked replicas that can return, and those that are not worth their volumes any more. Pure."""

from __future__ import annotations

from datetime import datetime

from peaker.domain.instants import in_words, seconds_between
from peaker.domain.replicas.fleet import FleetState, Parking, Replica
from peaker_contract.names import OWNER_TAG, RUN_TAG

# A replica that is not there after this long will not be in time for the peak that asked for it: no run waits longer.
CATCH_UP_WITHIN_SECONDS = 6 * 3600


def why_expired(parking: Parking, now: datetime) -> str | None:
    """Why a parked replica is not worth its volumes any more; None while it is."""
    if parking.spent is not None:
        return parking.spent
    if parking.until is not None and now >= parking.until:
        return f"expired at {in_words(parking.until)}: {parking.until_reason}"
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
    """Returns its parking, or why it cannot be started: it must be stopped, whole, and this environment's."""
    row, tags = replica.ledger_row, replica.instance.tags
    if row is None or row.parking is None or not replica.is_parked:
        return "is not parked"
    if tags.get(OWNER_TAG) != environment or tags.get(RUN_TAG) != row.run_id:
        return "owner tag, run tag and ledger row do not agree (I1)"
    if replica.instance.state != "stopped":
        return f"its instance is {replica.instance.state}, not stopped"
    if row.parking.incomplete_since is not None:
        return f"a volume of it is missing since {in_words(row.parking.incomplete_since)}"
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
