"""A parked replica's volume brought to the newest snapshot by changed blocks, against a new volume and its prewarm.

At the engines alone, on the same store: what a return and a build have in common (instance, database, catch-up) is not
in it. The replica's volume is made from the donor's snapshot and warmed; then both write, the donor is snapshotted
again, and what the lists name together is a twentieth of what was used, or a little more.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from peaker_host.blocks.ranges import total

from bench.prewarm.cold_volumes import BLOCK, MIB, STATE, Content, Laboratory, Restored, mounted
from bench.prewarm.direct_fill import STORES, THROUGHPUT_MIB_PER_S, cloud_with, wrong_blocks
from bench.prewarm.engine import Say
from bench.prewarm.methods import EngineHost, checked, result_of, warm
from localcloud.dataplane import VolumeLimits

Place = tuple[str, int]
"""A file's name and an offset within it, in bytes."""

CHANGED_SHARE = 0.05
CHUNK_BYTES = 2 * MIB
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
        used = total(lab.used_blocks(first, content.filesystem))
        for number in range(1, repeats + 1):
            places = _places(lab, donor_id, int(CHANGED_SHARE * used) * BLOCK // CHUNK_BYTES + 1, number)
            newest = _written(lab, donor_id, places[: math.ceil(BY_DONOR * len(places))])
            returns.append(_return(lab, content, donor_id, first, newest, places, used))
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
    places: Sequence[Place],
    used: int,
) -> Returned:
    """Built from the first snapshot, warm, and parked after writes of its own; the clock runs over the engine alone."""
    limits = VolumeLimits(throughput_mib_per_s=THROUGHPUT_MIB_PER_S)
    with lab.restored(first, limits) as volume:
        at_build = _snapshot(lab, volume.volume_id)
        _read(volume, lab.store.snapshot_blocks(first))
        parked = _written(lab, volume.volume_id, places[-math.ceil(BY_REPLICA * len(places)) :])
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


def _places(lab: Laboratory, volume_id: str, count: int, seed: int) -> list[Place]:
    """Pieces of the volume's files at random."""
    with _open(lab, volume_id) as point:
        sizes = {file.name: file.stat().st_size for file in sorted(point.glob("table-*"))}
    found = [
        (name, at) for name, size in sizes.items() for at in range(0, size - CHUNK_BYTES + 1, CHUNK_BYTES)
    ]
    return random.Random(seed).sample(found, count)


def _written(lab: Laboratory, volume_id: str, places: Sequence[Place]) -> str:
    """New content in place, as a database writes its pages; then a snapshot, with nothing mounted."""
    with _open(lab, volume_id) as point:
        for name, at in places:
            with (point / name).open("r+b", buffering=0) as file:
                file.seek(at)
                file.write(os.urandom(CHUNK_BYTES))
                os.fsync(file.fileno())
    return _snapshot(lab, volume_id)


def _open(lab: Laboratory, volume_id: str) -> AbstractContextManager[Path]:
    return mounted(lab.store.attach(volume_id).path, STATE / f"mount-{volume_id}")


def _read(volume: Restored, blocks: Sequence[int]) -> None:
    """As many at once as the store fetches."""
    descriptor = os.open(volume.path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(VolumeLimits().fetch_parallel) as pool:
            list(pool.map(lambda index: os.pread(descriptor, 1, index * BLOCK), blocks))
    finally:
        os.close(descriptor)
