"""What things cost, on demand in us-east-1, in USD. A type that is not in the table has no price: unknown, not 0.

Instance prices: Karpenter's table of 2026-07-20 (pkg/providers/pricing). EBS: the EBS pricing page's examples;
gp3 throughput is the least certain figure. Initialization: example 12 of that page, in "a region that charges".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peaker.domain.reading import Known, Reading, Unknown

HOURS_PER_MONTH = 730.0

_SIZES = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "12xlarge": 24, "16xlarge": 32}
_LARGE_HOURLY_USD = {"r6i": 0.1260, "r7g": 0.1071, "r7i": 0.1323, "r8g": 0.11782}

INSTANCE_HOURLY_USD: Mapping[str, float] = {
    f"{family}.{size}": round(large * factor, 5)
    for family, large in _LARGE_HOURLY_USD.items()
    for size, factor in _SIZES.items()
}


@dataclass(frozen=True)
class PriceTable:
    """Unit prices in USD and where they come from."""

    source: str
    instance_hourly: Mapping[str, float]
    gp3_gib_month: float
    gp3_iops_month: float
    gp3_mib_per_s_month: float
    io2_gib_month: float
    io2_iops_month: float
    snapshot_gib_month: float
    initialization_per_gib_per_mib_per_s: float

    def instance_hour(self, instance_type: str) -> Reading:
        """USD per hour, or Unknown for a type that the table lacks."""
        price = self.instance_hourly.get(instance_type)
        if price is None:
            return Unknown(f"{instance_type} is not in the price table")
        return Known(price)

    def volume_hour(self, volume_type: str, size_gib: int, iops: int, throughput_mib_per_s: int) -> float:
        """USD per hour of one provisioned volume; gp3 includes 3,000 IOPS and 125 MiB/s."""
        if volume_type == "io2":
            month = size_gib * self.io2_gib_month + iops * self.io2_iops_month
        else:
            month = (
                size_gib * self.gp3_gib_month
                + max(0, iops - 3000) * self.gp3_iops_month
                + max(0, throughput_mib_per_s - 125) * self.gp3_mib_per_s_month
            )
        return month / HOURS_PER_MONTH

    def initialization(self, gib: float, rate_mib_per_s: int | None) -> float:
        """USD, once, for a provisioned initialization rate; the default initialization is free."""
        return gib * self.initialization_per_gib_per_mib_per_s * (rate_mib_per_s or 0)

    def snapshot_hour(self, gib: float) -> float:
        """USD per hour of a standard snapshot that stores so much."""
        return gib * self.snapshot_gib_month / HOURS_PER_MONTH


US_EAST_1 = PriceTable(
    source="us-east-1 on demand, 2026-07-20 (instances), EBS pricing page examples (volumes)",
    instance_hourly=INSTANCE_HOURLY_USD,
    gp3_gib_month=0.08,
    gp3_iops_month=0.005,
    gp3_mib_per_s_month=0.04,
    io2_gib_month=0.125,
    io2_iops_month=0.065,
    snapshot_gib_month=0.05,
    initialization_per_gib_per_mib_per_s=0.000012,
)
