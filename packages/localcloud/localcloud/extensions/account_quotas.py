"""What an account may have of EC2 and EBS: AWS's defaults, and what this account was given instead.

Defaults: Service Quotas console of a new account, EC2 and EBS in us-east-1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULTS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("ec2", "L-1216C47A"): ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5.0),
    ("ec2", "L-7295265B"): ("Running On-Demand X instances", 0.0),
    ("ec2", "L-43DA4232"): ("Running On-Demand High Memory instances", 0.0),
    ("ebs", "L-7A658B76"): ("Storage for General Purpose SSD (gp3) volumes, in TiB", 50.0),
    ("ebs", "L-09BD8365"): ("Storage for Provisioned IOPS SSD (io2) volumes, in TiB", 20.0),
    ("ebs", "L-A37D9CF3"): ("Cumulative volume initialization rate, in MiB/s", 5_000.0),
    ("ebs", "L-8D977E7E"): ("IOPS for Provisioned IOPS SSD (io2) volumes", 100_000.0),
}
# A working account was given more processors than a new one has.
GIVEN: Mapping[tuple[str, str], float] = {("ec2", "L-1216C47A"): 1_920.0}


class LocalQuotas:
    """The values that this account was given; `give` changes one."""

    def __init__(self) -> None:
        self._given = dict(GIVEN)

    def give(self, service: str, code: str, value: float) -> None:
        """From now on this is the account's value."""
        self._given[service, code] = value

    def value(self, service: str, code: str) -> float | None:
        """What the account may have; None where the local cloud knows no such quota."""
        known = DEFAULTS.get((service, code))
        return self._given.get((service, code), None if known is None else known[1])

    def applied(self, service: str, code: str) -> dict[str, Any] | None:
        """As GetServiceQuota answers; None without a value of the account's own."""
        value = self._given.get((service, code))
        return None if value is None else _described(service, code, value)

    def default(self, service: str, code: str) -> dict[str, Any] | None:
        """As GetAWSDefaultServiceQuota answers."""
        known = DEFAULTS.get((service, code))
        return None if known is None else _described(service, code, known[1])


def _described(service: str, code: str, value: float) -> dict[str, Any]:
    name = DEFAULTS.get((service, code), (code, 0.0))[0]
    return {"ServiceCode": service, "QuotaCode": code, "QuotaName": name, "Value": value, "Adjustable": True}
