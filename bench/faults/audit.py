"""What is wrong with an environment, told from the raw account alone; nothing of Peaker decides here.

The words are those of DESIGN's invariants: what carries Peaker's owner tag serves, is parked or is gone; a run has one
instance; nobody gets reads before the proof; base replicas and the source are as they were; the ledger says what is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from peaker_contract.names import CLUSTER_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG, RUN_TAG
from sim.account import Account, Record, attachment_at, source_at, state_at
from sim.workflows.virtual_time import START

LEASE_SECONDS = 900.0
# A host answers the load balancer's probe so long before it gets reads.
PROBED_SECONDS = 30.0
# Between a look and the call that it was for: a function that stands still goes on to its own end.
IN_FLIGHT_SECONDS = 65.0
ENDED = ("shutting-down", "terminated")


@dataclass(frozen=True)
class Finding:
    """`kind`: orphan, double, unproven, bounds, base, ledger or lease."""

    kind: str
    text: str


@dataclass(frozen=True)
class Bounds:
    """What a cluster's settings allow."""

    cluster: str
    min_replicas: int
    max_replicas: int


def audit(account: Account, now: float, bounds: Bounds, stops: list[float]) -> list[Finding]:
    """All findings of a cluster on which no run is at work any more."""
    return [
        *_instances(account, now, bounds.cluster),
        *_volumes(account, now),
        *_snapshots(account, now, bounds.cluster),
        *_targets(account, now, bounds.cluster),
        *_doubles(account),
        *_unproven(account, now),
        *_bounds(account, bounds),
        *_base(account, now, bounds.cluster),
        *_rows(account, now),
        *_lease(account, now, bounds.cluster, stops),
    ]


def of_cluster(whole: Account, cluster: str) -> Account:
    """What an account holds of this cluster alone."""
    account = copy(whole)
    account.instances = {
        key: one for key, one in account.instances.items() if one["tags"].get(CLUSTER_TAG) == cluster
    }
    account.volumes = {
        key: one for key, one in account.volumes.items() if one["tags"].get(CLUSTER_TAG, cluster) == cluster
    }
    account.snapshots = {
        key: one for key, one in account.snapshots.items() if one["tags"].get(CLUSTER_TAG, cluster) == cluster
    }
    account.targets = {key: one for key, one in account.targets.items() if key == cluster}
    account.past_targets = [one for one in account.past_targets if one["instance"] in account.instances]
    account.table = {
        key: rows
        for key, rows in account.table.items()
        if key == f"cluster#{cluster}" or rows.get("run", {}).get("cluster") == cluster
    }
    return account


def seconds_to_free_lease(account: Account, cluster: str, stops: list[float]) -> float:
    """For how long at most, in one piece, the lease was held after the last stop by what it left and by who undoes it.

    A run that began later, as the release of a lease starts one, keeps nobody waiting for the undo.
    """
    if not stops:
        return 0.0
    mine = [one for one in account.leases if one["pk"] == f"cluster#{cluster}"]
    before = {one["run_id"] for one in mine if one["at"] <= stops[-1]}
    longest, since = 0.0, None
    for one, after in pairwise([*mine, {"at": float("inf")}]):
        held = one["run_id"] != "-" and (one["run_id"] in before or one["run_id"].startswith("sweep"))
        since = (one["at"] if since is None else since) if held else None
        end = min(after["at"], max(one["at"], _second(one["held_until"])))
        if since is not None and end > stops[-1]:
            longest = max(longest, end - max(since, stops[-1]))
        if end < after["at"]:
            since = None
    return longest


def _second(moment: str) -> float:
    return (datetime.fromisoformat(moment) - START).total_seconds()


def _cluster_rows(account: Account, cluster: str, prefix: str) -> dict[str, Record]:
    found = account.table.get(f"cluster#{cluster}", {})
    return {key.removeprefix(prefix): row for key, row in found.items() if key.startswith(prefix)}


def _owned(records: dict[str, Record]) -> Iterator[Record]:
    return (one for one in records.values() if OWNER_TAG in one["tags"])


def _instances(account: Account, now: float, cluster: str) -> Iterator[Finding]:
    rows = _cluster_rows(account, cluster, "replica#")
    alive = {one["id"]: one for one in _owned(account.instances) if state_at(one, now) not in ENDED}
    serving = account.targets.get(cluster, {}).get("serving", {})
    for instance_id, one in alive.items():
        state, row = state_at(one, now), rows.get(instance_id, {}).get("state")
        target = serving.get(instance_id)
        in_service = target is not None and target["draining"] is None
        if row == "in_service":
            if state != "running" or not in_service:
                yield Finding("ledger", f"{instance_id} is in_service and {state}, target {target}")
            elif (database := account.on_host(instance_id, "database", now)) and not database[1]:
                yield Finding(
                    "ledger", f"{instance_id} is in_service, its database down since {database[0]:.0f} s"
                )
        elif row == "parked":
            if state != "stopped":
                yield Finding("orphan", f"{instance_id} is parked and {state}")
        else:
            yield Finding("orphan", f"{instance_id} is {state}, its row {row}")
    for instance_id, row in rows.items():
        if row["state"] != "retired" and instance_id not in alive:
            yield Finding("ledger", f"{instance_id} is gone, its row {row['state']}")


def _volumes(account: Account, now: float) -> Iterator[Finding]:
    for one in _owned(account.volumes):
        held = attachment_at(one, now)
        if one["history"][-1][1] == "deleted" or (held and held["until"] is None):
            continue
        yield Finding(
            "orphan",
            f"{one['id']} of {one['tags'].get(RUN_TAG)} is {one['history'][-1][1]}, attached nowhere",
        )


def _snapshots(account: Account, now: float, cluster: str) -> Iterator[Finding]:
    sets = _cluster_rows(account, cluster, "snapshots#").values()
    documents = [json.loads(row["document"]) for row in sets if "gone_at" not in row]
    kept = {snapshot for one in documents for snapshot in one["snapshots"].values()}
    there = {one["id"] for one in _owned(account.snapshots) if state_at(one, now) != "deleted"}
    for snapshot in sorted(there - kept):
        yield Finding("orphan", f"{snapshot} is kept by no row")
    for snapshot in sorted(kept - there):
        yield Finding("ledger", f"{snapshot} is gone, a row keeps it")


def _targets(account: Account, now: float, cluster: str) -> Iterator[Finding]:
    rows = _cluster_rows(account, cluster, "replica#")
    for name, group in account.targets.get(cluster, {}).items():
        for instance_id, one in group.items():
            if one["draining"] is not None:
                continue
            instance = account.instances[instance_id]
            if OWNER_TAG in instance["tags"] and rows.get(instance_id, {}).get("state") != "in_service":
                state = state_at(instance, now)
                yield Finding("orphan", f"{instance_id}, {state}, is registered in the {name} group")


def _doubles(account: Account) -> Iterator[Finding]:
    lives: dict[str, list[tuple[float, float, str]]] = {}
    for one in _owned(account.instances):
        end = next((at for at, state in one["history"] if state in ENDED), float("inf"))
        lives.setdefault(one["tags"][RUN_TAG], []).append((one["history"][0][0], end, one["id"]))
    for run, spans in lives.items():
        for (_, end, first), (start, _, second) in pairwise(sorted(spans)):
            if start < end:
                yield Finding("double", f"{run} has {first} and {second} at the same time")


def _unproven(account: Account, now: float) -> Iterator[Finding]:
    spans = [(one["instance"], one) for one in account.past_targets]
    spans += [
        (instance_id, one)
        for groups in account.targets.values()
        for group in groups.values()
        for instance_id, one in group.items()
    ]
    said = set()
    for instance_id, target in spans:
        if OWNER_TAG not in account.instances[instance_id]["tags"]:
            continue
        end = min(one for one in (now, target["draining"], target["gone"]) if one is not None)
        astray = _follows_another(account, instance_id, target["registered"])
        if astray and (instance_id, astray) not in said:
            said.add((instance_id, astray))
            yield Finding(
                "unproven", f"{instance_id} is registered at {target['registered']:.0f} s: {astray}"
            )
        for start in _reads_from(account, instance_id, target, end):
            why = _missing_proof(account, instance_id, start)
            if why and (instance_id, why) not in said:
                said.add((instance_id, why))
                yield Finding("unproven", f"{instance_id} may get reads from {start:.0f} s on: {why}")


def _reads_from(account: Account, instance_id: str, target: Record, end: float) -> list[float]:
    """When the target becomes healthy: by its registration, and by each start of its database while it is there."""
    at_first = account.on_host(instance_id, "database", target["healthy"] - PROBED_SECONDS)
    moments = [target["healthy"]] if at_first and at_first[1] else []
    moments += [
        at + PROBED_SECONDS
        for at, what, value in account.hosts.get(instance_id, [])
        if what == "database" and value and at + PROBED_SECONDS > target["healthy"]
    ]
    up = [one for one in moments if one < end]
    return [one for one in up if (standing := account.on_host(instance_id, "database", one)) and standing[1]]


def _follows_another(account: Account, instance_id: str, second: float) -> str:
    """Why it does not follow the source of that moment, or of a call in flight's look."""
    cluster = account.instances[instance_id]["tags"][CLUSTER_TAG]
    follows = account.on_host(instance_id, "follows", second)
    sources = [source_at(account, cluster, one) for one in (second, second - IN_FLIGHT_SECONDS)]
    addresses = {account.instances[one]["private_ip"] for one in sources if one is not None}
    if follows is not None and follows[1] in addresses:
        return ""
    return f"it follows {follows[1] if follows else 'nobody'}, the source is {sources[0]}"


def _missing_proof(account: Account, instance_id: str, second: float) -> str:
    started, caught_up = (account.on_host(instance_id, what, second) for what in ("database", "caught_up"))
    if account.on_host(instance_id, "verified", second) is None:
        return "its storage was not verified"
    if caught_up is None or (started is not None and caught_up[0] < started[0]):
        return "it has not caught up since its database started"
    return ""


def _bounds(account: Account, bounds: Bounds) -> Iterator[Finding]:
    replicas = [one for one in account.instances.values() if one["tags"].get(ROLE_TAG) == "replica"]
    replicas = [one for one in replicas if one["tags"].get(CLUSTER_TAG) == bounds.cluster]
    for moment in sorted({at for one in replicas for at, _ in one["history"]}):
        there = [one for one in replicas if one["history"][0][0] <= moment]
        here = [one["id"] for one in there if state_at(one, moment) in ("pending", "running")]
        if len(here) > bounds.max_replicas:
            yield Finding(
                "bounds", f"{', '.join(here)} run at {moment:.0f} s, {bounds.max_replicas} are allowed"
            )
            break
    for entry in account.log:
        serving = entry["serving"].get(bounds.cluster)
        if serving is not None and len(serving) < bounds.min_replicas:
            yield Finding("bounds", f"after {entry['call']} of {entry['step']} only {serving} serve")


def _base(account: Account, now: float, cluster: str) -> Iterator[Finding]:
    foreign = [one for one in account.instances.values() if OWNER_TAG not in one["tags"]]
    for one in foreign:
        if len(one["history"]) != 2 or state_at(one, now) != "running":
            yield Finding("base", f"{one['id']}, which is not Peaker's, went through {one['history']}")
    for volume in account.volumes.values():
        if OWNER_TAG in volume["tags"]:
            continue
        held = attachment_at(volume, now)
        if held is None or volume["history"][-1][1] != "available":
            yield Finding("base", f"{volume['id']}, which is not Peaker's, is not attached")
    for name, group in account.targets.get(cluster, {}).items():
        base = {
            one["id"]
            for one in foreign
            if one["tags"].get(LOAD_TAG) == "base" and one["tags"][CLUSTER_TAG] == cluster
        }
        for instance_id in sorted(base):
            if instance_id not in group or group[instance_id]["draining"] is not None:
                yield Finding("base", f"base replica {instance_id} left the {name} group")
    for one in account.snapshots.values():
        holders = {held["instance"] for held in account.volumes[one["volume"]]["attachments"]}
        if any(_was_source(account, cluster, holder, one["started"]) for holder in holders):
            yield Finding("base", f"{one['id']} is a snapshot of the source")
    for one in account.commands.values():
        if _was_source(account, cluster, one["instance"], one["sent"]):
            yield Finding("base", f"{one['document']} ran on the source")


def _was_source(account: Account, cluster: str, instance_id: str, second: float) -> bool:
    """Then, and long enough to be known."""
    moments = (second, second - IN_FLIGHT_SECONDS)
    return all(source_at(account, cluster, one) == instance_id for one in moments)


def _rows(account: Account, now: float) -> Iterator[Finding]:
    records: dict[str, dict[str, Record]] = {
        "instance": account.instances,
        "volume": account.volumes,
        "snapshot": account.snapshots,
    }
    for key, rows in account.table.items():
        if not key.startswith("run#"):
            continue
        if rows.get("run", {}).get("outcome") == "running":
            yield Finding("ledger", f"{key} is said to be running")
        for row in rows.values():
            kind, resource_id = row.get("kind"), row.get("id")
            there: Any = records.get(str(kind), {}).get(str(resource_id))
            if there is None or row["state"] not in ("made", "kept"):
                continue
            if there["history"][-1][1] in ("terminated", "deleted"):
                yield Finding("ledger", f"{key}: {resource_id} is gone, its row {row['state']}")


def _lease(account: Account, now: float, cluster: str, stops: list[float]) -> Iterator[Finding]:
    lease = account.table.get(f"cluster#{cluster}", {}).get("lease")
    if lease is not None and lease["run_id"] != "-" and _second(lease["held_until"]) > now:
        yield Finding("lease", f"{lease['run_id']} holds the lease until {lease['held_until']}")
    took = seconds_to_free_lease(account, cluster, stops)
    if took > LEASE_SECONDS:
        yield Finding("lease", f"held for {took:.0f} s after the stop")
