"""What no run may pass, and how long a replica is kept."""

from __future__ import annotations

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
        ge=0, le=10_080, description="A replica is kept so long at least; a week at most.", examples=[60]
    )
    prewarm_deadline_minutes: StrictInt = Field(
        ge=1,
        le=2_880,
        description="A prewarm that cannot end by then fails. 48 hours at most, as a command on a host may take.",
        examples=[2880],
    )
