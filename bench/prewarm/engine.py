"""Figures of the engine itself: its CPU against fio, what kills cost, and whether the proof can be trusted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from peaker_host.blocks.ranges import each_block, total
from peaker_host.prove.storage_proof import sample_warmth

from bench.prewarm.cold_volumes import BLOCK, GIB, MIB, STATE, Laboratory, Restored
from bench.prewarm.methods import EngineHost, checked, fio_line, measured, result_of, start
from localcloud.blockstore.loop import attach_loop, detach_loop, queue_as_ebs

Say = Callable[[str], None]
COLD_LIMIT = 0.02


@dataclass(frozen=True)
class CpuCost:
    """CPU seconds per GiB read on an uncapped device, the start of the process in it, and the rate."""

    engine: float
    fio: float
    engine_start: float
    fio_start: float
    engine_gb_per_s: float
    fio_gb_per_s: float

    @property
    def ratio(self) -> float:
        """Everything counted."""
        return self.engine / self.fio

    @property
    def ratio_without_starts(self) -> float:
        """Without what each process costs before it reads."""
        return (self.engine - self.engine_start) / (self.fio - self.fio_start)


@dataclass(frozen=True)
class KillCost:
    """What random SIGKILLs made the engine read again."""

    kills: int
    blocks: int
    blocks_read_twice: float

    @property
    def share(self) -> float:
        """Read twice, against all that was to be read."""
        return self.blocks_read_twice / self.blocks


@dataclass(frozen=True)
class Verdicts:
    """Verdicts over volumes of which a known share is cold."""

    volumes: int
    wrongly_warm: int
    warm: int
    not_warm: int
    unknown: int
    rightly_not_warm: int
    cold: int


def cpu_cost(repeats: int, say: Say) -> CpuCost:
    """Engine and fio in turn over the whole of a device in memory; medians."""
    size = 4 * GIB
    with _memory_device(size) as volume:
        engine, fio = [], []
        for number in range(repeats):
            say(f"CPU {number + 1}/{repeats}: fio, engine")
            fio.append(checked(fio_line(volume.path)))
            host = EngineHost([volume], "xfs")
            host.assemble()
            engine.append(checked(host.prewarm()))
            read_gib = result_of(engine[-1].output)["bytes_read"] / GIB
            subprocess.run(["rm", "-r", str(host.root)], check=True)
        starts = [measured(host.command("report_prewarm"))[0].cpu_seconds for _ in range(5)]
        fio_starts = [checked(["fio", *_NO_READ]).cpu_seconds for _ in range(5)]
    gib = size / GIB
    return CpuCost(
        statistics.median(one.cpu_seconds for one in engine) / read_gib,
        statistics.median(one.cpu_seconds for one in fio) / gib,
        statistics.median(starts) / gib,
        statistics.median(fio_starts) / gib,
        read_gib * GIB / 1e9 / statistics.median(one.seconds for one in engine),
        size / 1e9 / statistics.median(one.seconds for one in fio),
    )


_NO_READ = ("--name=start", "--ioengine=null", "--size=1M", "--bs=1M", "--rw=read")


@contextlib.contextmanager
def _memory_device(size: int) -> Iterator[Restored]:
    """A loop device over a file in memory, split at 256 KiB as an EBS volume's; its filesystem is nearly full."""
    image = Path("/dev/shm") / f"peaker-bench-{os.getpid()}.img"
    piece = os.urandom(MIB)
    try:
        with image.open("wb", buffering=0) as file:
            for _ in range(size // MIB):
                file.write(piece)
        subprocess.run(["mkfs.xfs", "-q", "-f", "-K", str(image)], check=True)
        device = attach_loop(image)
        try:
            queue_as_ebs(device)
            _fill(device.path, size - size // 32)
            yield Restored("vol-0be9cffffffffffff", device.path, size)
        finally:
            detach_loop(device.path)
    finally:
        image.unlink(missing_ok=True)


def _fill(path: str, size: int) -> None:
    """Allocates the filesystem's blocks to one file; their content stays."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["mount", path, place], check=True)
        try:
            subprocess.run(["fallocate", "-l", str(size), f"{place}/t.ibd"], check=True)
        finally:
            subprocess.run(["umount", place], check=True)


def kill_cost(lab: Laboratory, snapshot_id: str, kills: int, say: Say) -> KillCost:
    """SIGKILL the engine at random moments, let it finish, count what the device saw above one pass."""
    generator = random.Random(20)
    with lab.restored(snapshot_id) as volume:
        host = EngineHost([volume], "xfs")
        lab.give_block_list(host.progress_path, {volume.volume_id: snapshot_id})
        host.assemble()
        blocks = total(lab.used_blocks(snapshot_id))
        seconds_whole = blocks * BLOCK / MIB / 125
        before = lab.store.stat(volume.volume_id).read_bytes
        for number in range(kills):
            process = start(host.prewarm())
            _await_reading(host, process)
            time.sleep(generator.uniform(0.0, 1.6 * seconds_whole / kills))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            say(f"kill {number + 1}/{kills}")
        checked(host.prewarm())
        said = json.loads(host.progress_path.read_text())
        if said["blocks_done"] != blocks:
            raise AssertionError(f"{said['blocks_done']} blocks are called done, {blocks} are in use")
        read = lab.store.stat(volume.volume_id).read_bytes - before
    return KillCost(kills, blocks, max(0.0, read / BLOCK - blocks))


def _await_reading(host: EngineHost, process: subprocess.Popen[str]) -> None:
    """Until this engine has planned and begun to read, or ended."""
    while process.poll() is None:
        try:
            said = json.loads(host.progress_path.read_text())
        except (FileNotFoundError, ValueError):
            said = {}
        if said.get("pid") == process.pid and said.get("volumes"):
            return
        time.sleep(0.02)


def verdicts(lab: Laboratory, snapshot_id: str, volumes: int, say: Say) -> Verdicts:
    """Volumes warmed to a random share, every second one between 95 and 100 %, then judged from a sample."""
    used = lab.used_blocks(snapshot_id)
    generator = random.Random(50)
    shares = [generator.uniform(0.95, 1.0) if n % 2 else generator.random() for n in range(volumes)]
    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(_verdict, lab, snapshot_id, used, share, n) for n, share in enumerate(shares)]
        found = []
        for number, one in enumerate(done):
            found.append(one.result())
            cold, verdict = found[-1]
            say(f"verdict {number + 1}/{volumes}: {cold:.1%} cold, called {verdict}")
    said = [verdict for _, verdict in found]
    cold_ones = [verdict for cold, verdict in found if cold >= COLD_LIMIT]
    return Verdicts(
        volumes,
        cold_ones.count("warm"),
        said.count("warm"),
        said.count("not_warm"),
        said.count("unknown"),
        cold_ones.count("not_warm"),
        len(cold_ones),
    )


def _verdict(
    lab: Laboratory, snapshot_id: str, used: list[tuple[int, int]], share: float, seed: int
) -> tuple[float, str]:
    generator = random.Random(seed)
    blocks = list(each_block(used))
    with lab.restored(snapshot_id) as volume:
        _read_blocks(volume.path, generator.sample(blocks, round(len(blocks) * share)))
        cold = 1 - round(len(blocks) * share) / len(blocks)
        warmth = sample_warmth(volume.path, volume.size_bytes, used, 411, 1.5, generator, lambda _: None)
    return cold, warmth.verdict


def _read_blocks(path: str, blocks: list[int]) -> None:
    """Whole blocks, 32 at a time."""
    log = STATE / f"blocks-{path.rsplit('/', 1)[1]}.fio"
    lines = [f"{path} read {block * BLOCK} {BLOCK}\n" for block in sorted(blocks)]
    log.write_text(f"fio version 2 iolog\n{path} add\n{path} open\n{''.join(lines)}{path} close\n")
    if lines:
        arguments = ["--replay_no_stall=1", "--ioengine=libaio", "--direct=1", "--iodepth=32", "--readonly"]
        checked(["fio", "--name=warm", f"--read_iolog={log}", *arguments])
    log.unlink()
