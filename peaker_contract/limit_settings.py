"""Limit settings bound runs, say how long a replica is kept, and give an instance's price."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, StrictInt

from peaker_contract.field_types import Number, Settings


class LimitSettings(Settings):
    """Ceilings that a run may not pass, and the time that a replica is kept at least."""

    max_hourly_cost_usd: Number | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="The budget: what all peak replicas together may cost, instances and volumes. With it, a plan "
        "whose price is not known is refused; without it, costs are told and nothing is refused for them.",
        examples=[10.0],
    )
    minimum_lifetime_minutes: StrictInt = Field(
        default=60,
        ge=0,
        le=10_080,
        description="A replica is kept so long at least; a week at most.",
        examples=[60],
    )
    prewarm_deadline_minutes: StrictInt = Field(
        default=2_880,
        ge=1,
        le=2_880,
        description="A prewarm that cannot end by then fails. 48 hours at most, as a command on a host may take.",
        examples=[2880],
    )


# -- what an instance costs -----------------------------------------------------------------------------------

# On demand, USD an hour: Karpenter's table of 2026-07-20 (pkg/providers/pricing). It serves no other region.
SHIPPED_REGION = "us-east-1"
_SIZES = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "12xlarge": 24, "16xlarge": 32}
_LARGE_HOURLY_USD = {"r6i": 0.1260, "r7g": 0.1071, "r7i": 0.1323, "r8g": 0.11782}
INSTANCE_HOURLY_USD: Mapping[str, float] = {
    f"{family}.{size}": round(large * factor, 5)
    for family, large in _LARGE_HOURLY_USD.items()
    for size, factor in _SIZES.items()
}


def shipped_hourly_usd(region: str, instance_type: str) -> float | None:
    """USD per hour on demand, or None where Peaker's table does not have it."""
    return INSTANCE_HOURLY_USD.get(instance_type) if region == SHIPPED_REGION else None
