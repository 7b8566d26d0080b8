"""Direct fill against a lazy volume and its prewarm: when the hot set is ready, when all is, and whether it is right.

The direct APIs are the local cloud's, asked with the credentials of an instance's role; the engine is a process of its
own, as on a host. Both ways get a volume of the same throughput.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from peaker_host.blocks.ranges import total

from bench.prewarm.cold_volumes import BLOCK, GIB, STATE, Content, Laboratory, Restored
from bench.prewarm.engine import Say
from bench.prewarm.methods import EngineHost, checked, result_of, warm
from localcloud.dataplane import DataPlane, VolumeLimits
from localcloud.extensions.ec2.ebs import register_snapshot
from localcloud.extensions.ec2.instance_metadata import serve_metadata
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import simulated_dataplane

ROLE = "bench-of-host"
# Of the local cloud, which has them from its start.
IMAGE, SUBNET = "ami-0a770000000000097", "subnet-0a77000000000001a"
# What the store gives a volume: as much as it takes, or the articles' 200 GB in an hour (3 blocks in 30 ms: 50 MiB/s).
THROUGHPUT_MIB_PER_S = 250
STORES = {
    "a store of 50 MiB/s": VolumeLimits(throughput_mib_per_s=THROUGHPUT_MIB_PER_S, fetch_parallel=3),
    "a store as fast as the volume": VolumeLimits(throughput_mib_per_s=THROUGHPUT_MIB_PER_S),
}
CONTENT = Content("4 GiB, 22 % used", 4, 0.40, 0.22, "xfs")


@dataclass(frozen=True)
class Ready:
    """Seconds from the engine's start."""

    hot_seconds: float
    all_seconds: float


@dataclass(frozen=True)
class Filled:
    """One direct fill. `wrong_blocks` of the whole volume are not the snapshot's, or not zeros where it holds none."""

    ready: Ready
    blocks: int
    wrong_blocks: int
    requests: int


def lazy(lab: Laboratory, snapshot_id: str, limits: VolumeLimits) -> Ready:
    """A volume restored from the snapshot, and the prewarm, hot blocks first."""
    found = warm(lab, snapshot_id, CONTENT.filesystem, "hot first", limits)
    return Ready(found.hot_warm_seconds or float("nan"), found.seconds)


def direct(lab: Laboratory, cloud: LocalCloud, metadata_url: str, snapshot_id: str) -> Filled:
    """An empty volume, filled by the host's own command."""
    limits = VolumeLimits(throughput_mib_per_s=THROUGHPUT_MIB_PER_S)
    with empty_volume(lab, lab.store.snapshot_size_bytes(snapshot_id), limits) as volume:
        host = EngineHost([volume], CONTENT.filesystem)
        host.configure(metadata_url=metadata_url, ebs_endpoint_url=cloud.endpoint_url)
        usage = checked(host.fill({"volume0": snapshot_id}))
        said = result_of(usage.output)
        wrong = wrong_blocks(lab, volume, snapshot_id)
    ready = Ready(said["hot_warm_seconds"], usage.seconds)
    return Filled(ready, said["blocks_done"], wrong, said["volumes"][0]["requests"])


@contextlib.contextmanager
def empty_volume(lab: Laboratory, size_bytes: int, limits: VolumeLimits) -> Iterator[Restored]:
    """A new volume, attached; deleted in the end."""
    volume_id = lab.new_id("vol")
    lab.store.create_volume(volume_id, size_bytes, limits)
    try:
        yield Restored(volume_id, lab.store.attach(volume_id).path, size_bytes)
    finally:
        lab.store.delete_volume(volume_id)


@contextlib.contextmanager
def cloud_with(lab: Laboratory, snapshots: Mapping[str, str]) -> Iterator[tuple[LocalCloud, str]]:
    """The API over the laboratory's snapshots, and the metadata service of an instance that may read them.

    `snapshots`: of which volume each was taken.
    """
    simulated = simulated_dataplane()
    plane = DataPlane(lab.store, simulated.hosts, simulated.endpoints)
    with LocalCloud(plane, STATE / "cloud", owns_dataplane=False) as cloud:
        for snapshot_id, volume_id in snapshots.items():
            size_gib = lab.store.snapshot_size_bytes(snapshot_id) // GIB
            register_snapshot(cloud, snapshot_id, size_gib, CONTENT.name, volume_id=volume_id)
        yield cloud, serve_metadata(cloud, _instance_with_role(cloud))


def _instance_with_role(cloud: LocalCloud) -> str:
    may = {
        "Effect": "Allow",
        "Action": ["ebs:ListSnapshotBlocks", "ebs:ListChangedBlocks", "ebs:GetSnapshotBlock"],
        "Resource": "arn:aws:ec2:*::snapshot/*",
    }
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policy, trusts = (json.dumps({"Version": "2012-10-17", "Statement": [one]}) for one in (may, trust))
    iam, ec2 = cloud.client("iam"), cloud.client("ec2")
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=trusts)
    iam.put_role_policy(RoleName=ROLE, PolicyName="read-blocks", PolicyDocument=policy)
    iam.create_instance_profile(InstanceProfileName=ROLE)
    iam.add_role_to_instance_profile(InstanceProfileName=ROLE, RoleName=ROLE)
    started = ec2.run_instances(
        ImageId=IMAGE, SubnetId=SUBNET, InstanceType="r6i.large", MinCount=1, MaxCount=1
    )
    instance_id = str(started["Instances"][0]["InstanceId"])
    ec2.associate_iam_instance_profile(InstanceId=instance_id, IamInstanceProfile={"Name": ROLE})
    return instance_id


def wrong_blocks(lab: Laboratory, volume: Restored, snapshot_id: str) -> int:
    """Of the whole volume, not of a sample."""
    listed = set(lab.store.snapshot_blocks(snapshot_id))
    zeros, wrong = bytes(BLOCK), 0
    descriptor = os.open(volume.path, os.O_RDONLY)
    try:
        for index in range(volume.size_bytes // BLOCK):
            wanted = lab.store.read_snapshot_block(snapshot_id, index) if index in listed else zeros
            wrong += os.pread(descriptor, BLOCK, index * BLOCK) != wanted
    finally:
        os.close(descriptor)
    return wrong


def measure(repeats: int, say: Say) -> tuple[list[Filled], dict[str, list[Ready]]]:
    """Fills, and lazy volumes by their store, in turn."""
    fills: list[Filled] = []
    lazily: dict[str, list[Ready]] = {name: [] for name in STORES}
    with Laboratory() as lab:
        snapshot_id = lab.fill(CONTENT)
        say(f"{CONTENT.name}: {lab.describe(snapshot_id, CONTENT.filesystem)}")
        listed = total(lab.listed_blocks(snapshot_id))
        with cloud_with(lab, {snapshot_id: lab.new_id("vol")}) as (cloud, metadata_url):
            for number in range(1, repeats + 1):
                fills.append(direct(lab, cloud, metadata_url, snapshot_id))
                say(
                    f"direct fill, run {number}: {_shown(fills[-1].ready)}; {fills[-1].blocks} of {listed} blocks"
                )
                for name, limits in STORES.items():
                    lazily[name].append(lazy(lab, snapshot_id, limits))
                    say(f"lazy volume, {name}, run {number}: {_shown(lazily[name][-1])}")
    return fills, lazily


def _shown(ready: Ready) -> str:
    return f"hot set after {ready.hot_seconds:.1f} s, all after {ready.all_seconds:.1f} s"
