"""The read endpoint: target groups that act minutes late, or a DNS name that loses a record at once."""

from __future__ import annotations

import random

from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.service.read_shares import shares_of_groups

from peaker_contract.cluster import ClusterSettings
from sim.account import Account, Record, state_at, target
from sim.workflows.virtual_time import VirtualTime

SERVING, WARMING = "serving", "warming"
# A load balancer finds a new target healthy after minutes, and drains it for its deregistration delay.
NLB_HEALTHY_SECONDS = (60.0, 240.0)
NLB_DRAIN_SECONDS = 300.0
DNS_HEALTHY_SECONDS = (60.0, 180.0)
PROBE_SECONDS = 30.0


class HostileEndpoint:
    """Port TrafficRouter, of either kind. In the account, a target is healthy from `healthy` on if its host answers."""

    def __init__(self, account: Account, time: VirtualTime, chance: random.Random) -> None:
        self._account = account
        self._time = time
        self._random = chance

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        self._enter(settings, WARMING, instance_id)

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        self._enter(settings, SERVING, instance_id)
        if settings.read_endpoint.kind == "route53":
            self._enter(settings, WARMING, instance_id)

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        now = self._time.seconds
        delay = NLB_DRAIN_SECONDS if settings.read_endpoint.kind == "nlb" else 0.0
        for name in (SERVING, WARMING):
            one = self._group(settings.name, name).get(instance_id)
            if one is not None and one["draining"] is None:
                one["draining"], one["gone"] = now, now + delay

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._health(settings.name, SERVING)

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        return self._health(settings.name, WARMING)

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        self._account.shares[settings.name] = share

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        warming = self._account.shares.get(settings.name, 0.001)
        return shares_of_groups(
            [(1 - warming, self.health(settings)), (warming, self.warming_health(settings))]
        )

    def set(self, instance_id: str, state: TargetState, reason: str = "", *, only: str | None = None) -> None:
        """Its health in `orders` from now on, whatever its host says, in both groups or in `only` this one."""
        draining = self._time.seconds if state is TargetState.DRAINING else None
        for name in (SERVING, WARMING) if only is None else (only,):
            said = TargetHealth(state, reason)
            self._group("orders", name)[instance_id] = target(0.0, 0.0, draining=draining, said=said)

    def forget(self, instance_id: str, *, only: str | None = None) -> None:
        """Somebody takes it out of both groups of `orders`, or out of `only` this one, at once."""
        for name in (SERVING, WARMING) if only is None else (only,):
            self._group("orders", name).pop(instance_id, None)

    def serving(self, cluster: str) -> list[str]:
        """Who is healthy in the serving group."""
        found = self._health(cluster, SERVING)
        return sorted(name for name, one in found.items() if one.state is TargetState.HEALTHY)

    def _group(self, cluster: str, name: str) -> dict[str, Record]:
        return self._account.targets.setdefault(cluster, {SERVING: {}, WARMING: {}})[name]

    def _enter(self, settings: ClusterSettings, name: str, instance_id: str) -> None:
        group, now = self._group(settings.name, name), self._time.seconds
        there = group.get(instance_id)
        if there is not None and there["draining"] is None:
            return
        if there is not None:
            self._account.past_targets.append({**there, "gone": now, "instance": instance_id})
        late = NLB_HEALTHY_SECONDS if settings.read_endpoint.kind == "nlb" else DNS_HEALTHY_SECONDS
        group[instance_id] = target(now, now + self._random.uniform(*late))

    def _health(self, cluster: str, name: str) -> dict[str, TargetHealth]:
        now, group = self._time.seconds, self._group(cluster, name)
        for instance_id in [
            key for key, one in group.items() if one["gone"] is not None and one["gone"] <= now
        ]:
            self._account.past_targets.append({**group.pop(instance_id), "instance": instance_id})
        return {instance_id: self._standing(instance_id, one, now) for instance_id, one in group.items()}

    def _standing(self, instance_id: str, entry: Record, now: float) -> TargetHealth:
        if entry["draining"] is not None:
            return TargetHealth(TargetState.DRAINING, "Target.DeregistrationInProgress")
        if "said" in entry:
            said: TargetHealth = entry["said"]
            return said
        instance = self._account.instances.get(instance_id)
        if instance is None or state_at(instance, now) != "running":
            return TargetHealth(TargetState.UNUSED, "Target.InvalidState")
        if now < entry["healthy"]:
            return TargetHealth(TargetState.INITIAL, "Elb.InitialHealthChecking")
        if answers(self._account, instance_id, now):
            return TargetHealth(TargetState.HEALTHY)
        return TargetHealth(TargetState.UNHEALTHY, "Target.FailedHealthChecks")


def answers(account: Account, instance_id: str, second: float) -> bool:
    """Whether the host's responder has said good for long enough."""
    looks = (second - PROBE_SECONDS, second)
    return all(account.is_so(instance_id, "database", one) for one in looks)
