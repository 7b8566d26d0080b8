"""What others do to a cluster while Peaker works: a failover, a restarted host, a volume that is taken away.

None of it goes through a port, so that no record of calls has it.
"""

from __future__ import annotations

from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG
from sim.account import Record, attachment_at, state_at, target
from sim.endpoint import SERVING, WARMING
from sim.world import World

BOOT_SECONDS = 60.0
# How often a host is looked at that is to be met at work.
LOOKED_AT_SECONDS = 2.0


def fail_over_to_standby(world: World, cluster: str) -> None:
    """The source is replaced by a host that no reader knew; it stays, out of every role."""
    was = _source(world, cluster)
    settings = world.clusters.settings(cluster)
    tags = {CLUSTER_TAG: cluster, ENVIRONMENT_TAG: "local", ROLE_TAG: "source"}
    record = world.compute.made(tags, "us-east-1a", settings.instance_type)
    now = world.time.seconds
    record["shown"], record["history"] = now, [(now, "pending"), (now, "running")]
    # It was made long before; a source has a database that runs.
    world.account.happened(record["id"], now, "up", True)
    world.account.happened(record["id"], now, "database", True)
    was["tags"].pop(ROLE_TAG)
    _leads(world, cluster, record)


def fail_over_to_base(world: World, cluster: str) -> None:
    """A base replica becomes the source, and the source a base replica that is read from."""
    was = _source(world, cluster)
    base = next(one for one in _of(world, cluster) if one["tags"].get(LOAD_TAG) == "base")
    base["tags"] = {**base["tags"], ROLE_TAG: "source"}
    base["tags"].pop(LOAD_TAG)
    was["tags"] = {**was["tags"], ROLE_TAG: "replica", LOAD_TAG: "base"}
    for name in (SERVING, WARMING):
        group = world.account.targets[cluster][name]
        gone = group.pop(base["id"])
        world.account.past_targets.append({**gone, "gone": world.time.seconds, "instance": base["id"]})
        now = world.time.seconds
        group[was["id"]] = target(now, now)
    _leads(world, cluster, base)


def fail_over_to_peak(world: World, cluster: str) -> str:
    """A replica that Peaker made becomes the source, and the source a base replica; returns the new source's id."""
    was, newcomer = _source(world, cluster), world.account.instances[peaks(world, cluster)[0]]
    was["tags"] = {**was["tags"], ROLE_TAG: "replica", LOAD_TAG: "base"}
    newcomer["tags"] = {**newcomer["tags"], ROLE_TAG: "source"}
    _leads(world, cluster, newcomer)
    return str(newcomer["id"])


def restart(world: World, instance_id: str) -> None:
    """The host boots anew: its database is down, its commands end as HostileCommands says.

    EC2's LaunchTime stays, as at a reboot. A base replica starts its database by itself; one of Peaker's does not.
    """
    now, account = world.time.seconds, world.account
    if state_at(account.instances[instance_id], now) != "running":
        return
    world.commands.host_restarts(instance_id, BOOT_SECONDS)
    account.goes_down(instance_id, now)
    account.happened(instance_id, now + BOOT_SECONDS, "up", True)
    if account.instances[instance_id]["tags"].get(LOAD_TAG) == "base":
        account.happened(instance_id, now + BOOT_SECONDS, "database", True)


def restart_at_work(world: World) -> None:
    """The host that was given the newest command boots anew, unless it was only asked what it does."""
    newest = list(world.account.commands.values())[-1]
    if newest["document"] != "report_work":
        world.time.after(0.7, lambda: restart(world, newest["instance"]))


def restart_in_command(world: World, cluster: str, patience_seconds: float = 3600.0) -> None:
    """The first host of Peaker's in this cluster that has been at work on a command for a moment boots anew."""
    for instance_id in peaks(world, cluster):
        if world.commands.at_work(instance_id):
            restart(world, instance_id)
            return
    if patience_seconds > 0:
        left = patience_seconds - LOOKED_AT_SECONDS
        world.time.after(LOOKED_AT_SECONDS, lambda: restart_in_command(world, cluster, left))


def stop(world: World, instance_id: str) -> None:
    """Somebody stops the instance in the console."""
    if state_at(world.account.instances[instance_id], world.time.seconds) == "running":
        world.compute.stop(instance_id)


def detach(world: World, instance_id: str) -> str | None:
    """Somebody detaches a data volume by force; a database on it ends. The volume's id; None if it has none."""
    now = world.time.seconds
    for volume in world.account.volumes.values():
        held = attachment_at(volume, now)
        if held is None or held["instance"] != instance_id or held["deleted_with_it"]:
            continue
        for one in volume["attachments"]:
            if one["instance"] == instance_id and one["until"] is None:
                one["until"] = now
        world.account.happened(instance_id, now, "database", False)
        world.account.happened(instance_id, now, "lost_volume", True)
        return str(volume["id"])
    return None


def attach(world: World, volume_id: str | None, instance_id: str) -> None:
    """Somebody gives it its volume back."""
    now, volume = world.time.seconds, world.account.volumes[str(volume_id)]
    volume["attachments"].append({**volume["attachments"][-1], "at": now, "attached": now, "until": None})
    world.account.happened(instance_id, now, "lost_volume", False)


def delete_snapshot(world: World, cluster: str, number: int) -> None:
    """Somebody deletes one of Peaker's snapshots of this cluster, whatever it is kept for."""
    now = world.time.seconds
    of_cluster = [
        one["id"]
        for one in world.account.snapshots.values()
        if one["tags"].get(CLUSTER_TAG) == cluster
        and OWNER_TAG in one["tags"]
        and state_at(one, now) != "deleted"
    ]
    if of_cluster:
        world.storage.delete_snapshot(sorted(of_cluster)[number % len(of_cluster)])


def peaks(world: World, cluster: str) -> list[str]:
    """Ids of the replicas that Peaker made and that are there."""
    ended = ("shutting-down", "terminated")
    there = [one for one in _of(world, cluster) if OWNER_TAG in one["tags"]]
    return sorted(one["id"] for one in there if state_at(one, world.time.seconds) not in ended)


def _leads(world: World, cluster: str, source: Record) -> None:
    """What serves follows the new source, as the tool of a failover sees to; what is being built is unknown to it."""
    now, account = world.time.seconds, world.account
    account.sources.setdefault(cluster, []).append((now, source["id"]))
    for instance_id in account.targets[cluster][SERVING]:
        account.happened(instance_id, now, "follows", source["private_ip"])


def _source(world: World, cluster: str) -> Record:
    return next(one for one in _of(world, cluster) if one["tags"].get(ROLE_TAG) == "source")


def _of(world: World, cluster: str) -> list[Record]:
    return [one for one in world.account.instances.values() if one["tags"].get(CLUSTER_TAG) == cluster]
