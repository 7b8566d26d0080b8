"""What the engine leaves to reads of warm pages beside it, and what that costs the engine.

One run, one volume: the engine alone, then on the mounted volume beside four readers of the hot file, then the readers
alone. Another run mounts the volume and leaves it idle. Rates are compared within a run. The readers stand for an
applier whose pages are not in memory; they ask for the next page as soon as they have one, as busily as they can.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.prewarm.cold_volumes import BLOCK, MIB, STATE, Content, Laboratory, Restored, mounted
from bench.prewarm.engine import Say
from bench.prewarm.methods import EngineHost, checked, start
from localcloud.dataplane import DataPlaneError, VolumeLimits

CONTENT = Content("8 GiB, 40 % used", 8, 0.42, 0.40, "xfs")
READERS = 4
# Three fetches of 30 ms side by side: the store gives 50 MiB/s of the 125 that the volume may take.
VOLUMES = {
    "the volume's throughput binds": VolumeLimits(),
    "the snapshot store binds": VolumeLimits(fetch_parallel=3),
}
_ALONE_SECONDS = 5.0
_SETTLE_SECONDS = 3.0
_BESIDE_SECONDS = 10
_IDLE_SECONDS = 12.0


@dataclass(frozen=True)
class Beside:
    """One run. Reads of 16 KiB a second, the engine's MiB/s. `told` is what the engine said of the room it left."""

    reads_alone: float
    reads_beside: float
    engine_alone: float
    engine_beside: float
    told: str

    @property
    def reads_kept(self) -> float:
        """Of their rate alone."""
        return self.reads_beside / self.reads_alone

    @property
    def engine_kept(self) -> float:
        """Of its rate alone."""
        return self.engine_beside / self.engine_alone


def measure(repeats: int, say: Say) -> tuple[dict[str, list[Beside]], list[float]]:
    """Runs by what binds; and of runs on an idle volume, what the engine kept of its rate."""
    found: dict[str, list[Beside]] = {name: [] for name in VOLUMES}
    idle = []
    with Laboratory() as lab:
        snapshot_id = lab.fill(CONTENT)
        say(f"{CONTENT.name}: {lab.describe(snapshot_id)}")
        for number in range(1, repeats + 1):
            for name, limits in VOLUMES.items():
                one = _beside(lab, snapshot_id, limits)
                found[name].append(one)
                say(f"{name}, run {number}: reads kept {one.reads_kept:.2f}, engine {one.engine_kept:.2f}")
                say(f"  {one.told}")
            idle.append(_idle(lab, snapshot_id))
            say(f"an idle volume, run {number}: engine kept {idle[-1]:.2f}")
    return found, idle


def _beside(lab: Laboratory, snapshot_id: str, limits: VolumeLimits) -> Beside:
    with contextlib.ExitStack() as stack:
        volume = stack.enter_context(lab.restored(snapshot_id, limits))
        host = _host(lab, snapshot_id, volume)
        with _engine(host) as engine:
            alone = _engine_rate(lab, volume, _ALONE_SECONDS)
            point = stack.enter_context(mounted(volume.path, STATE / f"mount-{volume.volume_id}" / "volume0"))
            _reads(f"{point}/hot.ibd", _SETTLE_SECONDS)
            before, began = _fetched(lab, volume), time.monotonic()
            reads = _reads(f"{point}/hot.ibd", _BESIDE_SECONDS)
            beside = (_fetched(lab, volume) - before) / (time.monotonic() - began)
            _check_at_work(engine)
            told = json.loads(host.progress_path.read_text())["throttled"] or "never held back"
        reads_alone = _reads(f"{point}/hot.ibd", _ALONE_SECONDS)
    return Beside(reads_alone, reads, alone, beside, told)


def _idle(lab: Laboratory, snapshot_id: str) -> float:
    """What the engine keeps of its rate where the volume is mounted and nobody reads it."""
    with contextlib.ExitStack() as stack:
        volume = stack.enter_context(lab.restored(snapshot_id))
        host = _host(lab, snapshot_id, volume)
        with _engine(host) as engine:
            alone = _engine_rate(lab, volume, _ALONE_SECONDS)
            stack.enter_context(mounted(volume.path, STATE / f"mount-{volume.volume_id}" / "volume0"))
            kept = _engine_rate(lab, volume, _IDLE_SECONDS) / alone
            _check_at_work(engine)
    return kept


def _host(lab: Laboratory, snapshot_id: str, volume: Restored) -> EngineHost:
    host = EngineHost([volume], CONTENT.filesystem, STATE / f"mount-{volume.volume_id}")
    lab.give_block_list(host.progress_path, {volume.volume_id: snapshot_id})
    host.assemble()
    return host


@contextlib.contextmanager
def _engine(host: EngineHost) -> Iterator[subprocess.Popen[str]]:
    """At work on what is not hot; ended with the block."""
    engine = start(host.prewarm())
    try:
        while not _is_hot(host):
            if engine.poll() is not None:
                raise DataPlaneError("the engine ended before the hot set was read")
            time.sleep(0.1)
        yield engine
    finally:
        engine.terminate()
        engine.communicate()


def _check_at_work(engine: subprocess.Popen[str]) -> None:
    if engine.poll() is not None:
        said = engine.stdout.read() if engine.stdout else ""
        raise DataPlaneError(f"the engine ended while it was measured: {said[-600:]}")


def _is_hot(host: EngineHost) -> bool:
    try:
        return json.loads(host.progress_path.read_text())["hot_warm_seconds"] is not None
    except (FileNotFoundError, ValueError):
        return False


def _engine_rate(lab: Laboratory, volume: Restored, seconds: float) -> float:
    before, began = _fetched(lab, volume), time.monotonic()
    time.sleep(seconds)
    return (_fetched(lab, volume) - before) / (time.monotonic() - began)


def _fetched(lab: Laboratory, volume: Restored) -> float:
    """MiB that the volume has got of the store: only the engine reads cold blocks."""
    return lab.store.stat(volume.volume_id).cold_fetches * BLOCK / MIB


def _reads(path: str, seconds: float) -> float:
    """Reads a second of warm pages, around the page cache as a database's."""
    done = checked(
        [
            *("fio", "--name=reads", f"--filename={path}", "--rw=randread", "--bs=16k", "--direct=1"),
            *("--ioengine=psync", f"--numjobs={READERS}", "--thread", "--group_reporting", "--norandommap"),
            *("--time_based", f"--runtime={seconds:g}", "--readonly", "--output-format=json"),
        ]
    )
    return float(json.loads(done.output[done.output.index("{") :])["jobs"][0]["read"]["iops"])
