"""All that exists, as plain dicts with times in seconds of virtual time; nothing here knows Peaker."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]
# DescribeInstances may not show for so long what RunInstances has answered; of volumes and snapshots it is less.
INSTANCE_SHOWN_WITHIN = 30.0
OTHERS_SHOWN_WITHIN = 8.0
# A list may still tell what was true so many seconds ago.
STALE_SECONDS = (0.0, 0.0, 0.0, 1.0, 3.0, 6.0)
TERMINATED_SHOWN_FOR = 3600.0
# When that was which was always there.
LONG_AGO = -86_400.0 * 99


@dataclass
class Account:
    """Each record has a `history`: (second, state) in order, also of what is still to come.

    hosts: what happened on a host, (second, what, value). targets: by cluster, group and instance;
    past_targets: those that are gone, each with its instance. sources: by cluster, (second, instance) from when on.
    table: items by partition and sort key. log: every call that had an effect.
    """

    instances: dict[str, Record] = field(default_factory=dict)
    volumes: dict[str, Record] = field(default_factory=dict)
    snapshots: dict[str, Record] = field(default_factory=dict)
    commands: dict[str, Record] = field(default_factory=dict)
    hosts: dict[str, list[tuple[float, str, Any]]] = field(default_factory=dict)
    targets: dict[str, dict[str, dict[str, Record]]] = field(default_factory=dict)
    past_targets: list[Record] = field(default_factory=list)
    sources: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    table: dict[str, dict[str, Record]] = field(default_factory=dict)
    leases: list[Record] = field(default_factory=list)
    log: list[Record] = field(default_factory=list)
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    metrics: list[Record] = field(default_factory=list)
    full_zones: set[str] = field(default_factory=set)
    full_types: set[str] = field(default_factory=set)
    count: int = 0

    def next_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count:017x}"

    def happened(self, host: str, second: float, what: str, value: Any) -> None:
        self.hosts.setdefault(host, []).append((second, what, value))
        self.hosts[host].sort(key=lambda one: one[0])

    def goes_down(self, host: str, second: float) -> None:
        """What was still to come on the host does not come; its database is down until somebody starts it."""
        self.hosts[host] = [one for one in self.hosts.get(host, []) if one[0] <= second]
        for what in ("up", "database", "prewarm"):
            self.happened(host, second, what, False)

    def on_host(self, host: str, what: str, second: float) -> tuple[float, Any] | None:
        """When and to what it last changed."""
        found = [(at, value) for at, kind, value in self.hosts.get(host, []) if kind == what and at <= second]
        return found[-1] if found else None

    def is_so(self, host: str, what: str, second: float) -> bool:
        """Whether it was true of the host then."""
        found = self.on_host(host, what, second)
        return bool(found and found[1])


def attachment(
    instance_id: str, device: str | None, at: float, attached: float, *, deleted_with_it: bool = False
) -> Record:
    """One that begins at a second and is attached a while later."""
    made: Record = {"instance": instance_id, "device": device, "at": at, "attached": attached}
    return {**made, "until": None, "deleted_with_it": deleted_with_it}


def target(registered: float, healthy: float, **more: Any) -> Record:
    """A target of a group, healthy from a second on if its host answers."""
    return {"registered": registered, "healthy": healthy, "draining": None, "gone": None, **more}


def source_at(account: Account, cluster: str, second: float) -> str | None:
    """Who was the cluster's source then."""
    found = [instance for since, instance in account.sources.get(cluster, []) if since <= second]
    return found[-1] if found else None


def state_at(record: Record, second: float) -> str:
    """The state in its history; before it begins, the first."""
    found = record["history"][0][1]
    for at, state in record["history"]:
        if at > second:
            break
        found = state
    return str(found)


def change(record: Record, second: float, *coming: tuple[float, str]) -> None:
    """From now on: (seconds from now, state); what was still to come does not come."""
    record["history"] = [one for one in record["history"] if one[0] <= second]
    record["history"] += [(second + later, state) for later, state in coming]


def attachment_at(volume: Record, second: float) -> Record | None:
    """Who has it then; until it is detached."""
    for one in volume["attachments"]:
        if one["at"] <= second and (one["until"] is None or second < one["until"]):
            return dict(one)
    return None


def volume_state(volume: Record, second: float) -> str:
    state = state_at(volume, second)
    return "in-use" if state == "available" and attachment_at(volume, second) else state


def stale(chance: random.Random, second: float) -> float:
    return second - chance.choice(STALE_SECONDS)
