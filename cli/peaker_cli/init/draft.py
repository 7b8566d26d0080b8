"""A draft is the settings of a cluster as its hosts have them, each with its origin. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peaker.domain.reading import Unknown

from peaker_cli.failures import ControlPlaneError
from peaker_cli.init.answers import Answers, Raw, tags_of
from peaker_contract.names import CLUSTER_TAG, VOLUME_TAG
from peaker_contract.storage_settings import GP3_IOPS, GP3_MIB_PER_S, GP3_MIB_PER_S_PER_IOPS

# Of the environment rather than of one cluster: they go into `defaults`.
SHARED = ("security_group_ids", "instance_profile", "instance_role_arn", "subnets")
_DEFAULTS: Mapping[str, Any] = {"engine": "mysql", "min_replicas": 1, "read_endpoint": {}}
# A replica is taken to serve well up to this share of its processors.
_GOOD_SHARE = 0.6
# Where nothing was measured: a guess that a first look corrects.
_READS_OF_A_VCPU = 250
_PEAK_REPLICAS = 2
_LEAST_BUSY_SHARE = 0.02
_DEFAULT_DEADLINE_MINUTES = 2_880
_AS_USUAL = "xfs, mounted as usual; --mount"
_DEVICES = [f"/dev/sd{letter}" for letter in "fghijklmnop"]


@dataclass(frozen=True)
class Setting:
    """A setting, and where its value comes from; `guessed` where that needs a second look."""

    name: str
    value: Any
    origin: str = ""
    guessed: bool = False

    @property
    def comment(self) -> str:
        return f"{'guessed: ' if self.guessed else ''}{self.origin}"


@dataclass(frozen=True)
class Seen:
    """All that was read: AWS's answers, the replica's own, its endpoint and load; Unknown with the reason."""

    answers: Answers
    source: Raw
    replicas: Sequence[Raw]
    host: Mapping[str, Any] | Unknown
    endpoint: Mapping[str, Any] | Unknown = field(default_factory=dict)
    load: tuple[Mapping[str, Any], float] | Unknown | None = None
    role_arn: str | None = None
    customer_keys: Sequence[str] | None = None

    @property
    def replica(self) -> Raw:
        return self.replicas[0]

    def of_host(self, name: str) -> Any:
        return None if isinstance(self.host, Unknown) else self.host.get(name)


@dataclass(frozen=True)
class Given:
    """What a person said by options; empty where nothing."""

    cluster: str = ""
    engine: str = ""
    capacity: float | None = None
    max_replicas: int | None = None
    image: str = ""
    dns: str = ""
    mounts: tuple[str, ...] = ()


def needed(settings: Sequence[Setting], defaults: Mapping[str, Any]) -> list[Setting]:
    """Returns those that a file with these defaults must say."""
    return [one for one in settings if one.value != defaults.get(one.name, _DEFAULTS.get(one.name))]


def region_of(zone: str) -> str:
    found = re.match(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+", zone)
    if found is None:
        raise ControlPlaneError(f"{zone[:60]!r} is no zone of AWS")
    return found[0]


def cluster_name(seen: Seen, given: Given) -> Setting:
    """Returns the name that was given, of the tag, or of the source's Name. Raises ControlPlaneError."""
    if given.cluster:
        return Setting("name", given.cluster)
    for host in (*seen.replicas, seen.source):
        if tagged := tags_of(host).get(CLUSTER_TAG):
            return Setting("name", tagged, f"tag {CLUSTER_TAG} of {host['InstanceId']}")
    named = tags_of(seen.source).get("Name", "").lower()
    words = [one for one in re.split(r"[^a-z0-9]+", named) if one not in _ROLES]
    name = re.sub(r"^[^a-z]+", "", "-".join(one for one in words if one))[:20].strip("-")
    if not name:
        raise ControlPlaneError("what is the cluster called? Give --cluster, e.g. --cluster orders")
    return Setting("name", name, f"tag Name of {seen.source['InstanceId']}; --cluster gives another", True)


_ROLES = frozenset(
    {"", "source", "primary", "master", "writer", "db", "mysql", "mariadb", "replica", "reader"}
)


def draft(seen: Seen, given: Given) -> tuple[list[Setting], list[str]]:
    """Returns the cluster's settings in the order of the file, and what could not be read, with the option for it."""
    replica, unread = seen.replica, list(_unread(seen))
    count, entries = len(seen.replicas), volumes(seen, given, unread)
    settings = [
        cluster_name(seen, given),
        Setting("engine", given.engine or seen.of_host("engine") or "mysql", seen.of_host("version") or ""),
        Setting("min_replicas", count, "the replicas given"),
        Setting(
            "max_replicas",
            given.max_replicas or count + _PEAK_REPLICAS,
            "" if given.max_replicas else f"the base replicas and {_PEAK_REPLICAS} more; --max-replicas",
            not given.max_replicas,
        ),
        Setting(
            "image_id",
            given.image or replica["ImageId"],
            "" if given.image else f"that of {replica['InstanceId']}; it must hold no data; --image",
            not given.image,
        ),
        Setting("instance_type", replica["InstanceType"], f"that of {replica['InstanceId']}"),
        *_shared(seen),
        *_keys(seen),
        Setting("volumes", entries, guessed=any(one.guessed for one in entries)),
        _endpoint(seen, given),
        *_load(seen, given),
        *_limits(seen),
    ]
    return settings, unread


def _unread(seen: Seen) -> Iterator[str]:
    name = seen.replica["InstanceId"]
    if isinstance(seen.host, Unknown):
        yield f"{name} itself ({seen.host.why}): --mount DEVICE=PATH and --engine say what lies there"
    else:
        why = seen.host.get("unknown") or {}
        if "server" in why:
            yield (
                f"its server ({why['server']}): --admin-defaults-file names an option file there with an "
                "administrator's login, --engine the engine"
            )
        elif seen.host.get("binlog_expire_seconds") is None:
            yield "how long the source keeps binary logs: a build must end before (limits.prewarm_deadline_minutes)"
    if isinstance(seen.endpoint, Unknown):
        yield f"how readers come to {name} ({seen.endpoint.why}): --dns NAME, else a load balancer is made"
    if isinstance(seen.load, Unknown):
        yield f"the load in CloudWatch ({seen.load.why}): load_metric in the file, else Peaker measures it itself"


def _shared(seen: Seen) -> Iterator[Setting]:
    replica = seen.replica
    groups = [one["GroupId"] for one in replica.get("SecurityGroups", ())][:5]
    yield Setting("security_group_ids", groups, f"those of {replica['InstanceId']}")
    profile = (replica.get("IamInstanceProfile") or {}).get("Arn", "").rpartition("/")[2] or None
    yield Setting("instance_profile", profile, f"that of {replica['InstanceId']}")
    role = seen.role_arn if seen.role_arn and seen.role_arn.rpartition("/")[2] != profile else None
    yield Setting("instance_role_arn", role, "the role in it")
    yield _subnets(seen)


def _subnets(seen: Seen) -> Setting:
    """The hosts' own subnets; in other zones the one of the replica's kind that has the most free addresses."""
    hosts = (*seen.replicas, seen.source)
    own = {one["Placement"]["AvailabilityZone"]: one["SubnetId"] for one in reversed(hosts)}
    known = {one["SubnetId"]: one for one in seen.answers.subnets}
    public = known.get(seen.replica["SubnetId"], {}).get("MapPublicIpOnLaunch")
    others: dict[str, str] = {}
    region = re.escape(region_of(seen.replica["Placement"]["AvailabilityZone"]))
    for one in sorted(known.values(), key=lambda subnet: subnet.get("AvailableIpAddressCount", 0)):
        zone = one["AvailabilityZone"]
        if (
            one.get("MapPublicIpOnLaunch") == public
            and zone not in own
            and re.fullmatch(rf"{region}[a-z]", zone)
        ):
            others[zone] = one["SubnetId"]
    origin = "where the hosts are"
    if others:
        origin += f"; guessed: {', '.join(sorted(others))}, of the same kind"
    return Setting("subnets", dict(sorted((own | others).items())), origin)


def _keys(seen: Seen) -> Iterator[Setting]:
    used = {one["KmsKeyId"] for one in seen.answers.volumes if one.get("KmsKeyId")}
    known = used if seen.customer_keys is None else set(seen.customer_keys)
    if known:
        origin = "the volumes'" if seen.customer_keys is not None else "the volumes'; remove what is aws/ebs"
        yield Setting("kms_key_arns", sorted(known), origin, seen.customer_keys is None)


def volumes(seen: Seen, given: Given, unread: list[str]) -> list[Setting]:
    """Returns an entry for each data volume of the replica, filesystem by filesystem. Raises ControlPlaneError."""
    attached = seen.answers.volumes_of(seen.replica)
    if not attached:
        raise ControlPlaneError(
            f"{seen.replica['InstanceId']} has no data volume beside its root: its data must lie on volumes of its own"
        )
    by_id = {str(one["VolumeId"]): device for device, one in attached.items()}
    found: list[Setting] = []
    for number, (devices, mount, why) in enumerate(_filesystems(seen, given, list(attached), by_id, unread)):
        names = _names(number, str(mount["mount_point"]), len(devices), [one.value["name"] for one in found])
        for name, device in zip(names, devices, strict=True):
            entry, origin = _volume(name, device, attached[device], found)
            told = "; ".join(one for one in (why, *origin) if one)
            found.append(Setting("", {**entry, **mount}, told, why == _AS_USUAL))
    return found


def _filesystems(
    seen: Seen, given: Given, attached: list[str], by_id: Mapping[str, str], unread: list[str]
) -> Iterator[tuple[list[str], dict[str, Any], str]]:
    """Yields the devices, the mount with filesystem and layout, and the origin of each filesystem."""
    if given.mounts:
        for text in given.mounts:
            yield _said(text, attached)
        return
    told = False
    for one in seen.of_host("mounts") or ():
        devices = [by_id[name] for name in one.get("volume_ids", ()) if name in by_id]
        if not one.get("layout"):  # a disk of Xen
            devices = [one["device"]] if one["device"] in attached else []
            devices = devices or [name for name in attached if name[-1] == one["device"][-1]]
        if "unsupported" in one:
            raise ControlPlaneError(f"{seen.replica['InstanceId']}: {one['unsupported']}")
        if devices:
            told = True
            yield (
                sorted(devices),
                _mount(one["mount_point"], one["filesystem"], one.get("layout")),
                "read there",
            )
    if told:
        return
    if len(attached) > 2:
        raise ControlPlaneError(
            f"what lies on {', '.join(attached)} of {seen.replica['InstanceId']} cannot be read"
            f"{''.join(f'; {one}' for one in unread[:1])}: give --mount DEVICES=PATH[:FILESYSTEM[:LAYOUT]] for each "
            f"filesystem, e.g. --mount {','.join(attached[:2])}=/var/lib/mysql:xfs:raid0"
        )
    for device, place in zip(attached, ("/var/lib/mysql", "/var/lib/mysql-log"), strict=False):
        yield [device], _mount(place), _AS_USUAL


def _said(text: str, attached: Sequence[str]) -> tuple[list[str], dict[str, Any], str]:
    devices, _, place = text.partition("=")
    path, filesystem, layout = (*place.split(":"), "", "")[:3]
    named = devices.split(",")
    if not path or not set(named) <= set(attached):
        raise ControlPlaneError(
            f"--mount {text[:80]!r}: must be DEVICES=PATH[:FILESYSTEM[:LAYOUT]] with devices of the replica "
            f"({', '.join(attached)}), e.g. {attached[0]}=/var/lib/mysql:xfs"
        )
    if len(named) > 1 and not layout:
        raise ControlPlaneError(
            f"--mount {text[:80]!r}: several volumes need a layout, e.g. {text[:40]}:xfs:raid0"
        )
    return named, _mount(path, filesystem or "xfs", layout or "single"), ""


def _mount(path: str, filesystem: str = "xfs", layout: str | None = None) -> dict[str, Any]:
    more = {"filesystem": filesystem} if filesystem != "xfs" else {}
    return {"mount_point": path, **more, **({"layout": layout} if layout not in (None, "single") else {})}


def _names(number: int, mount_point: str, count: int, taken: Sequence[str]) -> list[str]:
    """The first filesystem is the data directory's; a set's volumes are numbered."""
    base = "data"
    if number:
        last = re.sub(r"[^a-z0-9]+", "-", mount_point.rpartition("/")[2].lower()).strip("-")
        base = re.sub(r"^(mysql|mariadb)-", "", last)[:12] or f"volume-{number}"
        base = base if base[0].isalpha() and base not in taken else f"volume-{number}"
    return [base] if count == 1 else [f"{base}-{one}" for one in range(1, count + 1)]


def _volume(
    name: str, device: str, volume: Raw, others: Sequence[Setting]
) -> tuple[dict[str, Any], list[str]]:
    """What EC2 says of it; other types than gp3 and io2 become the one of these that is as fast."""
    kind, iops, rate = volume["VolumeType"], volume.get("Iops") or 0, volume.get("Throughput") or 0
    origin: list[str] = []
    taken = [one.value["device"] for one in others]
    if device not in _DEVICES:
        shown, device = device, next(one for one in _DEVICES if one[-1] == device[-1] or one not in taken)
        origin.append(f"attached as {shown}: tag {volume['VolumeId']} {VOLUME_TAG}={name}")
    if kind in ("io1", "io2"):
        speed: dict[str, Any] = {"volume_type": "io2", "iops": iops}
    else:
        if kind == "gp2":
            rate = 250
        least = max(iops, GP3_IOPS[0], int(rate / GP3_MIB_PER_S_PER_IOPS))
        speed = {"iops": least} if least > GP3_IOPS[0] else {}
        speed |= {"throughput_mib_per_s": rate} if rate > GP3_MIB_PER_S[0] else {}
    if kind not in ("gp3", "io2"):
        origin.append(f"{kind} there: {speed.get('volume_type', 'gp3')} is as fast")
    return {"name": name, "device": device, **speed}, origin


def _endpoint(seen: Seen, given: Given) -> Setting:
    found = {} if isinstance(seen.endpoint, Unknown) else dict(seen.endpoint)
    origin = str(found.pop("origin", ""))
    if given.dns:
        zone, _, name = given.dns.rpartition("/")
        zone = zone or found.get("hosted_zone_id", "")
        if not zone:
            raise ControlPlaneError(
                f"--dns {name}: give its hosted zone too, e.g. --dns Z0123456789ABCDEFGHIJ/{name}"
            )
        found, origin = {"hosted_zone_id": zone, "record_name": name}, ""
    port = seen.of_host("port")
    if port and port != 3306:
        found = {"port": port, **found}
        origin = "; ".join(one for one in (origin, f"the server's port is {port}") if one)
    return Setting("read_endpoint", found, origin)


def _load(seen: Seen, given: Given) -> Iterator[Setting]:
    found = None if isinstance(seen.load, Unknown) else seen.load
    if found is not None:
        metric = found[0]
        yield Setting("load_metric", metric, f"CloudWatch has it for {seen.replica['VpcId']}'s cluster", True)
    if given.capacity:
        yield Setting("capacity_per_replica", given.capacity)
        return
    reads, busy = seen.of_host("reads_per_second"), seen.of_host("busy_share")
    cpu = seen.replica.get("CpuOptions") or {}
    cores = int(cpu.get("CoreCount") or 2) * int(cpu.get("ThreadsPerCore") or 1)
    if found is not None and found[1] > 0:
        guess = found[1] / len(seen.replicas)
        origin = f"the highest of two weeks, {found[1]:g}, by {len(seen.replicas)} replicas"
    elif reads and busy and busy >= _LEAST_BUSY_SHARE:
        guess = reads * _GOOD_SHARE / busy
        origin = f"{reads:g} reads/s at {busy:.0%} of its processors, so many at {_GOOD_SHARE:.0%}"
    else:
        guess = float(cores * _READS_OF_A_VCPU)
        origin = f"{_READS_OF_A_VCPU} reads/s for each of {cores} vCPUs, as nothing was measured"
    yield Setting("capacity_per_replica", float(f"{guess:.3g}"), f"{origin}; --capacity", True)


def _limits(seen: Seen) -> Iterator[Setting]:
    kept = seen.of_host("binlog_expire_seconds")
    if kept and kept // 60 < _DEFAULT_DEADLINE_MINUTES:
        origin = f"the source keeps its binary logs for {kept} s, and a build must end before"
        yield Setting("limits", {"prewarm_deadline_minutes": max(1, kept // 60)}, origin)
