"""The limits of AWS that all runs of an account and region share, with their sources. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from peaker.domain.reading import Reading, Unknown


@dataclass(frozen=True)
class Quota:
    """A quota of Service Quotas, by its service's code and its own. `name` says in our words what it counts."""

    service: str
    code: str
    name: str = ""


@dataclass(frozen=True)
class Limit:
    """`capacity` in `unit` may be in use at a time; `basis` says who says so."""

    name: str
    unit: str
    capacity: float
    basis: str


# EBS user guide, "Quotas for Amazon EBS": cumulative initialization rate of a region (L-A37D9CF3), adjustable. What is
# refused beyond it fails the call of CreateVolume.
INITIALIZATION_RATE_QUOTA = Quota("ebs", "L-A37D9CF3")
_NAMED = "Service Quotas, ebs, L-A37D9CF3"
INITIALIZATION_RATE = Limit("initialization rate", "MiB/s", 5_000.0, f"AWS's default for a region ({_NAMED})")
# botocore, ec2:CreateVolume: VolumeInitializationRate, of one volume.
LEAST_RATE, MOST_RATE = 100, 300

# EC2 developer guide, "Request throttling for the Amazon EC2 API": each call has a bucket of an account and region that
# refills by so much a second. Of all that a build calls DescribeInstances is the narrowest, before RunInstances, which
# allows two a second. A third of it goes to builds: the scheduled looks, plans and others need it too.
DESCRIBE_INSTANCES_PER_SECOND = 20.0
# tests/faults/test_calls_of_a_build.py counts them.
DESCRIBE_INSTANCES_OF_A_BUILD = 25
STARTS_PER_SECOND = 0.25
# So many begin at once where nobody began for a while: RunInstances' bucket of requests holds five.
STARTS_AT_ONCE = 5


def initialization_rate(told: Reading) -> Limit:
    """The region's initialization rate with the quota that the account has; AWS's default where nobody tells it."""
    if isinstance(told, Unknown):
        return replace(INITIALIZATION_RATE, basis=f"{INITIALIZATION_RATE.basis}; {told.why}")
    return replace(INITIALIZATION_RATE, capacity=told.value, basis=f"the account's quota ({_NAMED})")
