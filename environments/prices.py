"""What an instance costs an hour, where that is known. A type or region that is not here has no known price.

On demand in us-east-1, USD: Karpenter's table of 2026-07-20 (pkg/providers/pricing). Volumes are left out: their sizes
come with the snapshots.
"""

from __future__ import annotations

_SIZES = {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 16, "12xlarge": 24, "16xlarge": 32}
_LARGE_HOURLY_USD = {"r6i": 0.1260, "r7g": 0.1071, "r7i": 0.1323, "r8g": 0.11782}

INSTANCE_HOURLY_USD: dict[tuple[str, str], float] = {
    ("us-east-1", f"{family}.{size}"): round(large * factor, 5)
    for family, large in _LARGE_HOURLY_USD.items()
    for size, factor in _SIZES.items()
}


def shipped_hourly_usd(region: str, instance_type: str) -> float | None:
    """USD per hour on demand, or None where that is not known."""
    return INSTANCE_HOURLY_USD.get((region, instance_type))
