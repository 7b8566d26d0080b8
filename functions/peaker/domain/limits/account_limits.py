"""The limits of AWS that all runs of an account and region share, with their sources. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """`capacity` in `unit` may be in use at a time; `basis` says who says so."""

    name: str
    unit: str
    capacity: float
    basis: str


# EBS user guide, "Quotas for Amazon EBS": cumulative initialization rate of a region (L-A37D9CF3), adjustable. What is
# refused beyond it fails the call of CreateVolume.
INITIALIZATION_RATE = Limit(
    "initialization rate", "MiB/s", 5_000.0, "AWS's default for a region (Service Quotas, ebs, L-A37D9CF3)"
)
# botocore, ec2:CreateVolume: VolumeInitializationRate, of one volume.
LEAST_RATE, MOST_RATE = 100, 300

# EC2 API user guide, "Request throttling": buckets of an account and region that refill by so much a second. A build
# takes one of RunInstances' and of CreateSnapshots', one of CreateVolume's for each volume, and looks some tens of
# times with Describe calls. The narrowest of these is half used at one start a second; the other half is others'.
RUN_INSTANCES_PER_SECOND = 2.0
STARTS_PER_SECOND = RUN_INSTANCES_PER_SECOND / 2
# So many begin at once where nobody began for a while: RunInstances' own bucket of requests holds five.
STARTS_AT_ONCE = 5
