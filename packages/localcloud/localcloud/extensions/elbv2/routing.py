"""How a listener spreads new connections over its target groups and their targets; decided without I/O.

A network load balancer chooses a group by its weight, then a target in it. One group has no say in another:
each fails open by itself, and a connection for a group that has nobody to take it is refused, however well
the other groups are. A target that is in several groups is one server with the sum of its shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from localcloud.dataplane import Target

# initial and unhealthy targets wait: they take connections only when their group fails open. registering: the load
# balancer does not act on its registration yet. leaving: is draining, or is out of the group and has connections left.
# stopped: the instance does not run.
Standing = Literal["healthy", "waiting", "registering", "leaving", "stopped"]

PLAIN_WEIGHT = 100
HEAVIEST = 256  # what HAProxy knows


@dataclass(frozen=True)
class GroupMember:
    """A target as one group has it."""

    target_id: str
    address: str
    port: int
    standing: Standing


@dataclass(frozen=True)
class ForwardedGroup:
    """A target group of a listener's action. weight is 0 to 999; 0 gets no new connections."""

    weight: int
    members: tuple[GroupMember, ...]

    def takers(self) -> tuple[str, ...]:
        """The targets that new connections to this group go to: the healthy ones, else it fails open."""
        for standing in ("healthy", "waiting"):
            found = tuple(m.target_id for m in self.members if m.standing == standing)
            if found:
                return found
        return ()


@dataclass(frozen=True)
class Routing:
    """Each target once, and the weight of the connections that nobody takes."""

    targets: tuple[Target, ...]
    refused_weight: int


def route(groups: Sequence[ForwardedGroup]) -> Routing:
    """The effective weight of a target is the sum over its groups of weight / number of takers."""
    shares: dict[str, float] = {}
    refused = 0.0
    for group in groups:
        takers = group.takers()
        if not takers:
            refused += group.weight
        for target_id in takers:
            shares[target_id] = shares.get(target_id, 0.0) + group.weight / len(takers)
    if not any(shares.values()):
        refused = 0.0  # nobody takes any: the endpoint refuses by itself
    memberships: dict[str, list[GroupMember]] = {}
    for group in groups:
        for member in group.members:
            memberships.setdefault(member.target_id, []).append(member)
    unit = _unit([*shares.values(), refused])
    targets = tuple(
        Target(
            target_id,
            members[0].address,
            members[0].port,
            _scaled(shares.get(target_id, 0.0), unit),
            draining=all(member.standing == "leaving" for member in members),
            up=target_id in shares,
        )
        for target_id, members in memberships.items()
    )
    return Routing(targets, _scaled(refused, unit))


def _unit(shares: Sequence[float]) -> float:
    """What one share is multiplied by: targets that are all alike weigh 100, else the heaviest 256."""
    positive = [share for share in shares if share > 0]
    if not positive:
        return 0.0
    alike = max(positive) - min(positive) < 1e-9 * max(positive)
    return (PLAIN_WEIGHT if alike else HEAVIEST) / max(positive)


def _scaled(share: float, unit: float) -> int:
    """A share as a whole weight; what is not 0 stays above 0."""
    return max(1, round(share * unit)) if share else 0
