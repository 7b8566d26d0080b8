"""A request is a run's order to the prewarm."""

from __future__ import annotations

from dataclasses import dataclass

from peaker_host.machine.errors import InvalidArgument
from peaker_host.warm.reading_orders import READING_ORDERS


@dataclass(frozen=True)
class PrewarmRequest:
    """A request names the volumes to warm and the `method`, a reading order. A rate limit of 0 means none; it
    holds for each volume.

    The background rate, when there is one, replaces the rate limit of a volume whose urgent tiers (hot,
    recovery) are read: from then on a database may be at work on it. The remainder is read at its own rate, once the
    volume is mounted at its place.
    """

    run_id: str
    method: str
    rate_limit_mib_per_s: float = 0.0
    with_remainder: bool = False
    background_rate_mib_per_s: float = 0.0
    remainder_rate_mib_per_s: float = 0.0


def check_request(request: PrewarmRequest) -> None:
    """Raise InvalidArgument with the field named."""
    if request.method not in READING_ORDERS:
        raise InvalidArgument(f"method: must be one of {', '.join(READING_ORDERS)}, not {request.method!r}")
    rates = (
        request.rate_limit_mib_per_s,
        request.background_rate_mib_per_s,
        request.remainder_rate_mib_per_s,
    )
    if min(rates) < 0:
        raise InvalidArgument(
            "rate-limit-mib-per-s, background-rate-mib-per-s, remainder-rate-mib-per-s: must be 0 (no limit) or more"
        )
