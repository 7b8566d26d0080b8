"""A target as a group has it, and what DescribeTargetHealth shows of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.elbv2.models import FakeHealthStatus

from localcloud.extensions.elbv2.routing import Standing

MATCHER = re.compile(r"(\d{3})(?:-(\d{3}))?")


@dataclass(frozen=True)
class Verdict:
    """ELBv2's state of a target, with the reason and description that it gives."""

    state: str
    reason: str | None = None
    description: str | None = None


REGISTERING = Verdict("initial", "Elb.RegistrationInProgress", "Target registration is in progress")
CHECKING = Verdict("initial", "Elb.InitialHealthChecking", "Initial health checks in progress")
HEALTHY = Verdict("healthy")
DRAINING = Verdict("draining", "Target.DeregistrationInProgress", "Target deregistration is in progress")
NOT_IN_USE = Verdict(
    "unused",
    "Target.NotInUse",
    "Target group is not configured to receive traffic from the load balancer",
)
NOT_ENABLED = Verdict(
    "unused",
    "Target.NotInUse",
    "Target is in an Availability Zone that is not enabled for the load balancer",
)
STOPPED = Verdict("unused", "Target.InvalidState", "Target is in the stopped state")


@dataclass
class Member:
    """A target of a group: the verdict that the load balancer acts on, and what Describe shows from when."""

    group_arn: str
    target_id: str
    port: int
    verdict: Verdict = REGISTERING
    told: list[tuple[float, Verdict]] = field(default_factory=lambda: [(0.0, REGISTERING)])
    passes: int = 0
    failures: int = 0
    enters_at_epoch: float = 0.0  # cloud time until which its registration is in progress
    entered: bool = False
    drained_at_epoch: float | None = None  # cloud time; set while draining
    taking_until_epoch: float = 0.0  # cloud time until which it is given new connections although it drains
    taking: Standing = "leaving"  # as what it is given them
    gone: bool = False  # out of the group; kept while the endpoint still has connections to it

    @property
    def leaving(self) -> bool:
        return self.gone or self.drained_at_epoch is not None

    def judge(self, verdict: Verdict, told_at: float) -> None:
        """Act on this verdict from now on; Describe shows it from `told_at` (monotonic seconds)."""
        self.verdict = verdict
        self.told.append((told_at, verdict))

    def shown(self, now: float) -> Verdict:
        """What Describe shows at this (monotonic) time."""
        while len(self.told) > 1 and self.told[1][0] <= now:
            self.told.pop(0)
        return self.told[0][1]


def forward_weights(actions: Iterable[Any]) -> dict[str, int]:
    for action in actions:
        config = action.data.get("ForwardConfig")
        if config and config.get("TargetGroups"):
            return {g["TargetGroupArn"]: int(g.get("Weight", 1)) for g in config["TargetGroups"]}
        if action.data.get("TargetGroupArn"):
            return {action.data["TargetGroupArn"]: 1}
    return {}


def attribute(group: Any, key: str, default: str) -> bool:
    return str(group.attributes.get(key, default)).lower() == "true"


def matches(codes: str, status: int) -> bool:
    """True when a status fits a matcher such as 200, 200-399 or 200,404."""
    for match in MATCHER.finditer(codes):
        low = int(match[1])
        if low <= status <= int(match[2] or low):
            return True
    return False


def not_registered(group: Any, target: Mapping[str, Any]) -> FakeHealthStatus:
    return FakeHealthStatus(
        str(target["Id"]),
        str(target.get("Port") or group.port),
        None,
        "unused",
        "Target.NotRegistered",
        "Target is not registered to the target group",
    )
