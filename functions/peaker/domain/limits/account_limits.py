"""The quotas of AWS that a plan looks at, with their sources. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from peaker.domain.reading import Reading, Unknown


@dataclass(frozen=True)
class Quota:
    """A quota of Service Quotas, by its service's code and its own. `name` says in our words what it counts."""

    service: str
    code: str
    name: str = ""


@dataclass(frozen=True)
class RegionRate:
    """The cumulative initialization rate that a region's volumes may be made with; `basis` says who says so."""

    mib_per_s: float
    basis: str


# EBS user guide, "Quotas for Amazon EBS": cumulative initialization rate of a region (L-A37D9CF3), adjustable. What is
# refused beyond it fails the call of CreateVolume.
INITIALIZATION_RATE_QUOTA = Quota("ebs", "L-A37D9CF3")
_NAMED = "Service Quotas, ebs, L-A37D9CF3"
DEFAULT_REGION_RATE = RegionRate(5_000.0, f"AWS's default for a region ({_NAMED})")
# botocore, ec2:CreateVolume: VolumeInitializationRate, of one volume.
LEAST_RATE, MOST_RATE = 100, 300


def region_rate(told: Reading) -> RegionRate:
    """The region's initialization rate with the quota that the account has; AWS's default where nobody tells it."""
    if isinstance(told, Unknown):
        return RegionRate(DEFAULT_REGION_RATE.mib_per_s, f"{DEFAULT_REGION_RATE.basis}; {told.why}")
    return RegionRate(told.value, f"the account's quota ({_NAMED})")
