"""What a run was given of the shared limits: from when it may build, and which initialization rates. Pure."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime

from peaker.domain.instants import seconds_between
from peaker.domain.limits.account_limits import INITIALIZATION_RATE
from peaker.domain.limits.reservations import Reserved, WithoutReservation
from peaker.domain.runs.ledger import RunPart

TURN = "its turn to start"


class Admission(RunPart):
    """Settled once, by the first look; it stands for the whole run.

    `rate_mib_per_s` is the sum over its volumes, 0 where none was reserved; `rate_ends_at` is when the reservation ends
    by itself. `waits_for` is empty where the run began at once; `notes` say what it goes without, and why.
    """

    ledger_name = "admission"

    asked_at: AwareDatetime
    begins_at: AwareDatetime
    rate_mib_per_s: float = 0.0
    rate_ends_at: AwareDatetime | None = None
    waits_for: str = ""
    notes: tuple[str, ...] = ()

    @property
    def wait_seconds(self) -> float:
        """From the question to the begin."""
        return seconds_between(self.asked_at, self.begins_at)

    @property
    def text(self) -> str:
        """`begins at once`, or `waits for the initialization rate until 20:14:03`; then what it goes without."""
        at = (
            f"waits for {self.waits_for} until {self.begins_at:%H:%M:%S}"
            if self.waits_for
            else "begins at once"
        )
        return "; ".join((at, *self.notes))


def admitted(now: datetime, slot: datetime, rate: Reserved | WithoutReservation | None) -> Admission:
    """What a run was given that asked `now`: a second to start in, and the answer for its rate if it wants one."""
    if isinstance(rate, Reserved):
        own = rate.own
        waits_for = INITIALIZATION_RATE.name if rate.starts_at > slot else TURN
        return Admission(
            asked_at=now,
            begins_at=rate.starts_at,
            rate_mib_per_s=own.amount,
            rate_ends_at=own.ends_at,
            waits_for=waits_for if rate.starts_at > now else "",
        )
    notes = () if rate is None else (f"no {INITIALIZATION_RATE.name}: {rate.why}",)
    return Admission(asked_at=now, begins_at=slot, waits_for=TURN if slot > now else "", notes=notes)


class VolumeRates(RunPart):
    """The initialization rates in MiB/s that the volumes are made with, by their names; None is the default rate.

    Settled once, before the first volume is made: a repeated call must ask for the same volumes again (I10).
    """

    ledger_name = "volume_rates"

    rates: dict[str, int | None]
    notes: tuple[str, ...] = ()
