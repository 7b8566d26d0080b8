"""Volumes for the prewarm bench: filled as a database host's are, snapshotted, restored cold.

Everything lives under build/bench-prewarm, where no clean-up of a local cloud comes by, and is removed at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from peaker_host.blocks.log_replay import free_ranges
from peaker_host.blocks.ranges import Range, blocks_of_bytes, complement, intersection, total

from localcloud import cleanup as host_cleanup
from localcloud.blockstore import ColdBlockStore, cleanup
from localcloud.blockstore.loop import backing_file, detach_loop
from localcloud.dataplane import VolumeLimits

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "build" / "bench-prewarm"
MIB = 1024 * 1024
GIB = 1024 * MIB
BLOCK = 512 * 1024
UNLIMITED = VolumeLimits(
    iops=0, throughput_mib_per_s=0, base_latency_ms=0.0, fetch_latency_ms=0.0, fetch_parallel=1024
)
POOL_BYTES = 96 * GIB
PAGE = 16384
HOT_SHARE = 0.1
_FILE_MIB = (64, 8, 24, 2, 40, 16, 96, 4)
_SPACE_ID = 77
_ID_PREFIX = "0be9c"


@dataclass(frozen=True)
class Content:
    """What a volume holds, as shares of its size: written at some time, and in use now."""

    name: str
    size_gib: int
    written_share: float
    used_share: float
    filesystem: str


@dataclass(frozen=True)
class Restored:
    """A volume made from a snapshot, attached."""

    volume_id: str
    path: str
    size_bytes: int


class Laboratory:
    """The block store of one bench run. A context manager; leaves nothing behind."""

    def __init__(self) -> None:
        remove_leftovers()
        self.store = ColdBlockStore(STATE, pool_bytes=POOL_BYTES)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        remove_leftovers()

    def new_id(self, kind: str) -> str:
        """A volume or snapshot id that is used once."""
        with self._lock:
            return f"{kind}-{_ID_PREFIX}{next(self._numbers):012x}"

    def fill(self, content: Content) -> str:
        """Make the volume as described and snapshot it; returns the snapshot's id."""
        volume_id, snapshot_id = self.new_id("vol"), self.new_id("snap")
        self.store.create_volume(volume_id, content.size_gib * GIB, UNLIMITED)
        device = self.store.attach(volume_id).path
        options = ["-q"] if content.filesystem == "xfs" else ["-q", "-E", "lazy_itable_init=0,nodiscard"]
        subprocess.run([f"mkfs.{content.filesystem}", *options, device], check=True)
        with mounted(device, STATE / f"mount-{volume_id}") as point:
            _write_files(point, content)
        self.store.create_snapshots({volume_id: snapshot_id})
        self.store.delete_volume(volume_id)
        return snapshot_id

    @contextlib.contextmanager
    def restored(self, snapshot_id: str, limits: VolumeLimits | None = None) -> Iterator[Restored]:
        """A volume from the snapshot, cold unless the limits say otherwise; deleted in the end."""
        volume_id, size = self.new_id("vol"), self.store.snapshot_size_bytes(snapshot_id)
        self.store.create_volume(volume_id, size, limits or VolumeLimits(), snapshot_id)
        try:
            yield Restored(volume_id, self.store.attach(volume_id).path, size)
        finally:
            self.store.delete_volume(volume_id)

    def used_blocks(self, snapshot_id: str) -> list[Range]:
        """Blocks that the filesystem uses and the snapshot holds."""
        place = STATE / f"mount-{self.new_id('used')}"
        with self.restored(snapshot_id, UNLIMITED) as volume, mounted(volume.path, place) as point:
            used = complement(free_ranges(str(point)), volume.size_bytes)
        return intersection(blocks_of_bytes(used), self.listed_blocks(snapshot_id))

    def listed_blocks(self, snapshot_id: str) -> list[Range]:
        """The snapshot's block list as ranges."""
        listed = self.store.snapshot_blocks(snapshot_id)
        return blocks_of_bytes([(block * BLOCK, BLOCK) for block in listed])

    def give_block_list(self, progress_path: Path, snapshots: Mapping[str, str]) -> None:
        """Puts the snapshots' block lists, by volume id, beside an engine's progress."""
        blocks = {name: self.store.snapshot_blocks(one) for name, one in snapshots.items()}
        texts = {name: ",".join(map(str, listed)) for name, listed in blocks.items()}
        progress_path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"block_bytes": BLOCK, "volumes": texts})
        progress_path.with_name("blocks.json").write_text(content)

    def describe(self, snapshot_id: str) -> str:
        """How much of the volume is in the snapshot and in use."""
        used, held = total(self.used_blocks(snapshot_id)), total(self.listed_blocks(snapshot_id))
        whole = self.store.snapshot_size_bytes(snapshot_id) // BLOCK
        return (
            f"{whole} blocks, {held} in the snapshot ({held / whole:.0%}), {used} in use ({used / whole:.0%})"
        )


def remove_leftovers() -> None:
    """What an interrupted bench left: hosts, devices, mounts, files."""
    _release_lost_loops()
    if not STATE.exists():
        return
    host_cleanup.clean(STATE)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if point.startswith(f"{STATE}/mount-"):
            subprocess.run(["umount", point], check=False)
    cleanup(STATE)
    shutil.rmtree(STATE)


def _release_lost_loops() -> None:
    """Loop devices of a bench's volumes whose mount is gone: the kernel names their files without a folder."""
    for entry in Path("/sys/block").glob("loop*"):
        file = backing_file(f"/dev/{entry.name}")
        if file is not None and file.startswith(f"/vol-{_ID_PREFIX}"):
            detach_loop(f"/dev/{entry.name}")


@contextlib.contextmanager
def mounted(device: str, point: Path) -> Iterator[Path]:
    """The device mounted at a directory of its own."""
    point.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-o", "noatime", device, str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def _write_files(point: Path, content: Content) -> None:
    """Files of assorted sizes up to the written share; then random ones deleted down to the used share.

    One of them, a tenth of what stays, is a tablespace, and a page list names its pages: the hot set.
    """
    whole = content.size_gib * GIB
    data = os.urandom(MIB)
    hot = point / "hot.ibd"
    hot_bytes = int(whole * content.used_share * HOT_SHARE) // MIB * MIB
    _write(hot, _tablespace_header(), data, hot_bytes)
    pages = (f"{_SPACE_ID},{page}\n" for page in range(0, hot_bytes // PAGE, 3))
    (point / "ib_buffer_pool").write_text("".join(pages))
    files: list[Path] = []
    for number, size_mib in enumerate(itertools.cycle(_FILE_MIB)):
        if _taken(point) >= whole * content.written_share:
            break
        files.append(point / f"table-{number}")
        _write(files[-1], b"", data, size_mib * MIB)
    random.Random(content.name).shuffle(files)
    os.sync()
    surplus = _taken(point) - whole * content.used_share
    for file in files:
        size = file.stat().st_size
        if size <= surplus:
            file.unlink()
            surplus -= size
    os.sync()


def _write(path: Path, head: bytes, data: bytes, size: int) -> None:
    with path.open("wb", buffering=0) as file:
        file.write((head + data)[: len(data)])
        for _ in range(size // len(data) - 1):
            file.write(data)
        os.fsync(file.fileno())


def _taken(point: Path) -> int:
    facts = os.statvfs(point)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def _tablespace_header() -> bytes:
    """A first page's space id and flags (fil0fil.h): pages of the default size."""
    header = bytearray(PAGE)
    struct.pack_into(">I", header, 34, _SPACE_ID)
    return bytes(header)
