"""Quotas of AWS that a plan checks, with their sources, and the account's use of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from peaker.domain.reading import Known, Reading, Unknown


@dataclass(frozen=True)
class Quota:
    """A quota of Service Quotas, by its service's code and its own. `name` is ours."""

    service: str
    code: str
    name: str = ""


@dataclass(frozen=True)
class RegionRate:
    """The cumulative initialization rate that a region's volumes may be made with; `basis` is its source."""

    mib_per_s: float
    basis: str


# EBS user guide, "Quotas for Amazon EBS": cumulative initialization rate of a region (L-A37D9CF3), adjustable. What is
# refused beyond it fails the call of CreateVolume.
INITIALIZATION_RATE_QUOTA = Quota("ebs", "L-A37D9CF3")
_NAMED = "Service Quotas, ebs, L-A37D9CF3"
DEFAULT_REGION_RATE = RegionRate(5_000.0, f"AWS's default for a region ({_NAMED})")
# botocore, ec2:CreateVolume: VolumeInitializationRate, of one volume.
LEAST_RATE, MOST_RATE = 100, 300


def region_rate(quota: Reading) -> RegionRate:
    """The region's initialization rate with the quota that the account has; AWS's default where nobody tells it."""
    if isinstance(quota, Unknown):
        return RegionRate(DEFAULT_REGION_RATE.mib_per_s, f"{DEFAULT_REGION_RATE.basis}; {quota.why}")
    return RegionRate(quota.value, f"the account's quota ({_NAMED})")


GIB_PER_TIB = 1024.0

STANDARD = Quota("ec2", "L-1216C47A", "vCPUs of on-demand standard instances (A, C, D, H, I, M, R, T, Z)")
X = Quota("ec2", "L-7295265B", "vCPUs of on-demand X instances")
HIGH_MEMORY = Quota("ec2", "L-43DA4232", "vCPUs of on-demand high memory instances")
STORAGE = {
    "gp3": Quota("ebs", "L-7A658B76", "TiB of gp3 volumes"),
    "io2": Quota("ebs", "L-09BD8365", "TiB of io2 volumes"),
}
IOPS = {"io2": Quota("ebs", "L-8D977E7E", "IOPS of io2 volumes")}
# Families whose letters begin like standard ones, each with a quota of its own.
_NOT_STANDARD = {"hpc", "inf", "trn", "dl", "mac"}


def vcpu_quota(instance_type: str) -> Quota | None:
    """The quota that instances of this type count in; None for a kind that no database runs on."""
    family = (re.match(r"[a-z]+", instance_type) or [""])[0]
    if family in _NOT_STANDARD:
        return None
    if family[:1] in set("acdhimrtz"):
        return STANDARD
    return {"x": X, "u": HIGH_MEMORY}.get(family[:1])


def volume_quotas(volume_type: str) -> tuple[Quota, ...]:
    """The quotas that volumes of this type count in: storage, and IOPS where they are provisioned."""
    return tuple(kinds[volume_type] for kinds in (STORAGE, IOPS) if volume_type in kinds)


@dataclass(frozen=True)
class QuotaUse:
    """A quota's `value` and the part `in_use`, both in its own unit."""

    value: Reading
    in_use: Reading


@dataclass(frozen=True)
class AccountUse:
    """Of an account and region: its quotas by code, the default vCPUs of the types that were asked for.

    `reserved` are empty places of capacity reservations that the cluster may use, by type: they are in use already.
    """

    quotas: Mapping[str, QuotaUse]
    vcpus: Mapping[str, int] | Unknown
    reserved: Mapping[str, int] = field(default_factory=dict)

    def of(self, quota: Quota) -> QuotaUse:
        """Unknown where nobody looked."""
        nobody = Unknown(f"nobody looked at {quota.name}")
        return self.quotas.get(quota.code, QuotaUse(nobody, nobody))

    def vcpus_of(self, instance_type: str) -> Reading:
        """The vCPUs of one instance of the type."""
        return vcpus_of(instance_type, self.vcpus)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        readings = [one for use in self.quotas.values() for one in (use.value, use.in_use)]
        all_readings = (*readings, self.vcpus)
        return tuple(one for one in all_readings if isinstance(one, Unknown))


def vcpus_of(instance_type: str, vcpus: Mapping[str, int] | Unknown) -> Reading:
    """The vCPUs that EC2 counts for an instance of the type, at any CPU options."""
    if isinstance(vcpus, Unknown):
        return vcpus
    if instance_type not in vcpus:
        return Unknown(f"EC2 names no vCPUs of {instance_type}")
    return Known(float(vcpus[instance_type]))


def vcpus_in_use(quota: Quota, types: Iterable[str], vcpus: Mapping[str, int] | Unknown) -> Reading:
    """`types`: of each instance that runs or begins to, on demand, and of each reserved place that is empty."""
    total = 0.0
    for kind in types:
        if vcpu_quota(kind) == quota:
            each = vcpus_of(kind, vcpus)
            if isinstance(each, Unknown):
                return each
            total += each.value
    return Known(total)
