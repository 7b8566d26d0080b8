"""Prices as the Price List API gave them, as the environment's parameter holds them. Pure."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict

HOURS_PER_MONTH = 730.0


class EbsPrices(BaseModel):
    """USD per unit; None where it is not known. Months have 730 hours."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gp3_gib_month: float | None = None
    gp3_iops_month: float | None = None
    gp3_mib_per_s_month: float | None = None
    io2_gib_month: float | None = None
    io2_iops_month: float | None = None
    io2_iops_month_above_32000: float | None = None
    io2_iops_month_above_64000: float | None = None
    snapshot_gib_month: float | None = None
    initialization_per_gib_per_mib_per_s: float | None = None


class Quote(BaseModel):
    """One answer of the Price List API: USD, None where it has no price or several."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    instance_hourly_usd: dict[str, float | None]
    ebs: EbsPrices


class FetchedPrices(BaseModel):
    """What the environment's parameter holds. `fetched_at` is None before the first success.

    `failure` is why the newest try failed, at `failed_at`; a success takes both away.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    region: str
    fetched_at: AwareDatetime | None = None
    instance_hourly_usd: dict[str, float | None] = {}
    ebs: EbsPrices = EbsPrices()
    failed_at: AwareDatetime | None = None
    failure: str | None = None
