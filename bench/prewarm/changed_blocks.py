"""A parked replica's volume brought to the newest snapshot by changed blocks, against a new volume and its prewarm.

At the engines alone, on the same store: what a return and a build have in common (instance, database, catch-up) is not
in it. The replica's volume is made from the donor's snapshot and warmed; then both write, the donor is snapshotted
again, and what the lists name together is a twentieth of what was used.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from peaker_host.blocks.ranges import each_block

from bench.prewarm.cold_volumes import BLOCK, Content, Laboratory, Restored
from bench.prewarm.direct_fill import STORES, THROUGHPUT_MIB_PER_S, cloud_with, wrong_blocks
from bench.prewarm.engine import Say
from bench.prewarm.methods import EngineHost, checked, result_of, warm
from localcloud.dataplane import VolumeLimits

CHANGED_SHARE = 0.05
# Of what changed: by the donor since the replica was built from it, by the replica itself, and by both.
BY_DONOR, BY_REPLICA = 0.75, 0.5


@dataclass(frozen=True)
class Returned:
    """One return: `changed` blocks were written in so many seconds; `wrong_blocks` of all are not the snapshot's."""

    seconds: float
    changed: int
    used: int
    wrong_blocks: int


def measure(content: Content, repeats: int, say: Say) -> tuple[list[Returned], dict[str, list[float]]]:
    """Returns, and the seconds of builds by their store, in turn."""
    returns: list[Returned] = []
    builds: dict[str, list[float]] = {name: [] for name in STORES}
    with Laboratory() as lab:
        donor_id, first = lab.fill_volume(content)
        say(f"{content.name}: {lab.describe(first, content.filesystem)}")
        used = list(each_block(lab.used_blocks(first, content.filesystem)))
        for number in range(1, repeats + 1):
            written = random.Random(number).sample(used, int(CHANGED_SHARE * len(used)))
            newest = _written(
                lab, donor_id, lab.store.attach(donor_id).path, written[: int(BY_DONOR * len(written))]
            )
            returns.append(_return(lab, content, donor_id, first, newest, written, len(used)))
            say(f"return, run {number}: {returns[-1]}")
            for name, limits in STORES.items():
                builds[name].append(warm(lab, newest, content.filesystem, "used only", limits).seconds)
                say(f"build, {name}, run {number}: {builds[name][-1]:.1f} s")
            first = newest
    return returns, builds


def _return(
    lab: Laboratory,
    content: Content,
    donor_id: str,
    first: str,
    newest: str,
    written: Sequence[int],
    used: int,
) -> Returned:
    """Built from the first snapshot, warm, and parked after writes of its own; the clock runs over the engine alone."""
    limits = VolumeLimits(throughput_mib_per_s=THROUGHPUT_MIB_PER_S)
    with lab.restored(first, limits) as volume:
        at_build = _snapshot(lab, volume.volume_id)
        _read(volume, lab.store.snapshot_blocks(first))
        own = written[len(written) - int(BY_REPLICA * len(written)) :]
        parked = _written(lab, volume.volume_id, volume.path, own)
        taken_of = {first: donor_id, newest: donor_id, at_build: volume.volume_id, parked: volume.volume_id}
        with cloud_with(lab, taken_of) as (cloud, metadata_url):
            host = EngineHost([volume], content.filesystem)
            host.configure(metadata_url=metadata_url, ebs_endpoint_url=cloud.endpoint_url)
            pairs = json.dumps({"volume0": [[first, newest], [at_build, parked]]})
            usage = checked(host.fill({"volume0": newest}, "--changed", pairs))
        blocks = result_of(usage.output)["blocks_done"]
        return Returned(usage.seconds, blocks, used, wrong_blocks(lab, volume, newest))


def _snapshot(lab: Laboratory, volume_id: str) -> str:
    snapshot_id = lab.new_id("snap")
    lab.store.create_snapshots({volume_id: snapshot_id})
    return snapshot_id


def _written(lab: Laboratory, volume_id: str, path: str, blocks: Sequence[int]) -> str:
    """New content in these blocks, then a snapshot."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for index in blocks:
            os.pwrite(descriptor, os.urandom(BLOCK), index * BLOCK)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return _snapshot(lab, volume_id)


def _read(volume: Restored, blocks: Sequence[int]) -> None:
    """As many at once as the store fetches."""
    descriptor = os.open(volume.path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(VolumeLimits().fetch_parallel) as pool:
            list(pool.map(lambda index: os.pread(descriptor, 1, index * BLOCK), blocks))
    finally:
        os.close(descriptor)
