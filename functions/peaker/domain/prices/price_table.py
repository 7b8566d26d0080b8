"""Unit prices in USD and where they come from. What is not known is Unknown, never 0 and never another region's figure.

The shipped table is that of us-east-1 and serves no other region. Instances: peaker_contract/load_settings.py.
EBS: the EBS pricing page's examples; gp3 throughput is the least certain figure.
Initialization: example 12 of that page, in "a region that charges".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import AwareDatetime, ConfigDict, Field

from peaker.domain.decoding import Contract
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.inventory import Volume
from peaker_contract.load_settings import HOURS_PER_MONTH, INSTANCE_HOURLY_USD, SHIPPED_REGION


class _Prices(Contract):
    model_config = ConfigDict(allow_inf_nan=False)


class EbsPrices(_Prices):
    """USD per unit; None where it is not known. Months have 730 hours."""

    gp3_gib_month: float | None = None
    gp3_iops_month: float | None = None
    gp3_mib_per_s_month: float | None = None
    io2_gib_month: float | None = None
    io2_iops_month: float | None = None
    io2_iops_month_above_32000: float | None = None
    io2_iops_month_above_64000: float | None = None
    snapshot_gib_month: float | None = None
    initialization_per_gib_per_mib_per_s: float | None = None


class Quote(_Prices):
    """One answer of the Price List API: USD, None where it has no price or several."""

    instance_hourly_usd: dict[str, float | None]
    ebs: EbsPrices


class FetchedPrices(_Prices):
    """What the environment's parameter holds. `fetched_at` is None before the first success.

    `failure` is why the newest try failed, at `failed_at`; a success takes both away.
    """

    region: str
    fetched_at: AwareDatetime | None = None
    instance_hourly_usd: dict[str, float | None] = Field(default_factory=dict)
    ebs: EbsPrices = EbsPrices()
    failed_at: AwareDatetime | None = None
    failure: str | None = None


# IOPS of io2 are sold in tiers (EBS pricing page).
_IO2_TIERS = (32_000, 64_000)

SHIPPED_SOURCE = "Peaker's table for us-east-1: instances of 2026-07-20, EBS by its pricing page"


SHIPPED_EBS = EbsPrices(
    gp3_gib_month=0.08,
    gp3_iops_month=0.005,
    gp3_mib_per_s_month=0.04,
    io2_gib_month=0.125,
    io2_iops_month=0.065,
    io2_iops_month_above_32000=0.046,
    io2_iops_month_above_64000=0.032,
    snapshot_gib_month=0.05,
    initialization_per_gib_per_mib_per_s=0.000012,
)


@dataclass(frozen=True)
class PriceTable:
    """Prices of one region. `why_unknown` is told of a price that it lacks, `source` of one that it has.

    `why_no_instance` is told instead where it is the instances alone whose prices are not known.
    """

    region: str
    source: str
    why_unknown: str
    instance_hourly: Mapping[str, float] = field(default_factory=dict)
    ebs: EbsPrices = field(default_factory=EbsPrices)
    why_no_instance: str | None = None

    def instance_hour(self, instance_type: str) -> Reading:
        """USD per hour, on demand."""
        hourly = self.instance_hourly.get(instance_type)
        return self._known(hourly, f"an hour of {instance_type}", self.why_no_instance)

    def volume_hour(self, volume_type: str, size_gib: int, iops: int, throughput_mib_per_s: int) -> Reading:
        """USD per hour of one provisioned volume; gp3 includes 3,000 IOPS and 125 MiB/s."""
        ebs = self.ebs
        if volume_type == "io2":
            low, middle = _IO2_TIERS
            parts = [
                (size_gib, ebs.io2_gib_month),
                (min(iops, low), ebs.io2_iops_month),
                (max(0, min(iops, middle) - low), ebs.io2_iops_month_above_32000),
                (max(0, iops - middle), ebs.io2_iops_month_above_64000),
            ]
        else:
            parts = [
                (size_gib, ebs.gp3_gib_month),
                (max(0, iops - 3000), ebs.gp3_iops_month),
                (max(0, throughput_mib_per_s - 125), ebs.gp3_mib_per_s_month),
            ]
        # A unit of which nothing is bought needs no price.
        bought = [(amount, unit) for amount, unit in parts if amount > 0]
        if any(unit is None for _, unit in bought):
            return self._known(None, f"an hour of a {volume_type} volume")
        return Known(sum(amount * (unit or 0.0) for amount, unit in bought) / HOURS_PER_MONTH)

    def initialization(self, gib: float, rate_mib_per_s: int | None) -> Reading:
        """USD, once, for a provisioned initialization rate; the default initialization is free."""
        if not rate_mib_per_s or gib <= 0:
            return Known(0.0)
        unit = self.ebs.initialization_per_gib_per_mib_per_s
        return self._known(None if unit is None else gib * unit * rate_mib_per_s, "the initialization rate")

    def snapshot_hour(self, gib: float) -> Reading:
        """USD per hour of a standard snapshot that stores so much."""
        unit = self.ebs.snapshot_gib_month
        return self._known(None if unit is None else gib * unit / HOURS_PER_MONTH, "an hour of a snapshot")

    def _known(self, usd: float | None, what: str, why: str | None = None) -> Reading:
        return (
            Unknown(f"unknown price of {what} in {self.region}: {why or self.why_unknown}")
            if usd is None
            else Known(usd)
        )


def total(readings: Iterable[Reading]) -> Reading:
    """The sum; unknown when a part is."""
    summed = 0.0
    for one in readings:
        if isinstance(one, Unknown):
            return one
        summed += one.value
    return Known(summed)


def volumes_hourly(volumes: Sequence[Volume], prices: PriceTable) -> Reading:
    """USD per hour of volumes that stand, whether their instance runs or not."""
    return total(
        prices.volume_hour(one.volume_type, one.size_gib, one.iops or 3000, one.throughput_mib_per_s or 125)
        for one in volumes
    )


def usd(reading: Reading, digits: int) -> float | None:
    """The amount, rounded, as documents carry it: None where it is unknown."""
    return None if isinstance(reading, Unknown) else round(reading.value, digits)


US_EAST_1 = PriceTable(
    region=SHIPPED_REGION,
    source=SHIPPED_SOURCE,
    why_unknown="it is not in Peaker's table; set instance_hourly_usd, or let Peaker ask the Price List API",
    instance_hourly=INSTANCE_HOURLY_USD,
    ebs=SHIPPED_EBS,
)
