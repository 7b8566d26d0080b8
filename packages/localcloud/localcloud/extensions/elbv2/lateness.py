"""How late a network load balancer acts on what its API has accepted already.

Registering and deregistering a target takes 3 to 5 minutes (AWS Support in aws-load-balancer-controller#1834), a
draining target gets new connections for about 2 minutes more (containers-roadmap#470), and ECS waits 10 minutes after
it has shifted weights (Amazon ECS, blue/green deployments with a Network Load Balancer). AWS states no bounds, so that
each is drawn evenly from a range. Times are in seconds of the cloud's clock.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

Weights = dict[str, int]


@dataclass(frozen=True)
class BalancerLateness:
    """Shortest and longest time in cloud seconds; the defaults are what users of AWS report."""

    registration_seconds: tuple[float, float] = (180.0, 300.0)
    # How long a target that drains is still given new connections.
    deregistration_seconds: tuple[float, float] = (60.0, 120.0)
    weight_seconds: tuple[float, float] = (60.0, 300.0)


PROMPT = BalancerLateness((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))


@dataclass
class _Listener:
    in_effect: Weights
    asked: Weights
    changes: list[tuple[float, Weights]] = field(default_factory=list)


class WeightsInEffect:
    """The weights that each listener goes by: those of a while ago. A new listener's are in effect at once."""

    def __init__(self, lateness: BalancerLateness, generator: random.Random) -> None:
        self._range = lateness.weight_seconds
        self._random = generator
        self._listeners: dict[str, _Listener] = {}

    def ask(self, listener_arn: str, weights: Weights, now: float) -> float | None:
        """The API has these weights now. Returns when they come into effect, None when they are not new or are already.

        Changes come into effect in their order.
        """
        known = self._listeners.get(listener_arn)
        if known is None:
            self._listeners[listener_arn] = _Listener(dict(weights), dict(weights))
            return None
        if weights == known.asked:
            return None
        known.asked = dict(weights)
        late = self._random.uniform(*self._range)
        if not late and not known.changes:
            known.in_effect = dict(weights)
            return None
        due = max([now + late, *(due for due, _ in known.changes)])
        known.changes.append((due, dict(weights)))
        return due

    def at(self, listener_arn: str, now: float) -> Weights:
        """The weights in effect at this time; empty for a listener that nobody asked for."""
        known = self._listeners.get(listener_arn)
        if known is None:
            return {}
        while known.changes and known.changes[0][0] <= now:
            known.in_effect = known.changes.pop(0)[1]
        return known.in_effect

    def keep(self, listeners: Mapping[str, object]) -> None:
        """Forget all listeners but these."""
        for arn in self._listeners.keys() - listeners.keys():
            del self._listeners[arn]
