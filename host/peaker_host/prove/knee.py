"""Finds a device's knee: the concurrency at which its answers get too slow, and the one from which it does no more.

The load is random 16 KiB reads around the page cache (a database page each), from as many threads as the step says.
Every step settles first, then is measured in windows until two in a row agree. The kernel's counters (/proc/diskstats)
are the measure, iostat is the second witness, and the generator watches its own processor time so that it is not taken
for the device's limit.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import mmap
import os
import random
import shutil
import threading
import time
from dataclasses import asdict, replace
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes
from peaker_host.blocks.timed_reads import PAGE_BYTES
from peaker_host.machine.devices import BlockDevice, describe_device, disk_counters, mount_points
from peaker_host.machine.errors import BenchmarkFailed, DeviceInUse, InvalidArgument, WrongDevice
from peaker_host.machine.settings import Processes
from peaker_host.prove.knee_search import KneeSettings, Step, search, warnings_about
from peaker_host.prove.load_test import iostat_during, nvme_counters, nvme_delta, summarise_iostat


class Places:
    """Aligned offsets at which a request lies wholly inside the device, and inside the blocks if some are named."""

    def __init__(self, device: BlockDevice, blocks: Sequence[Range], request_bytes: int) -> None:
        self._bytes = request_bytes
        runs = blocks or blocks_of_bytes([(0, device.size_bytes)])
        self._first: List[int] = []
        self._upto: List[int] = []
        for start, count in runs:
            first = start * BLOCK_BYTES // request_bytes
            end = min((start + count) * BLOCK_BYTES, device.size_bytes) // request_bytes
            if end > first:
                self._first.append(first)
                self._upto.append((self._upto[-1] if self._upto else 0) + end - first)
        if not self._upto:
            raise InvalidArgument(f"{device.path} has no room for a request of {request_bytes} bytes")

    def offset(self, generator: random.Random) -> int:
        place = generator.randrange(self._upto[-1])
        run = bisect.bisect_right(self._upto, place)
        before = self._upto[run - 1] if run else 0
        return (self._first[run] + place - before) * self._bytes


class Load:
    """Threads that read random pages; `run_with` sets how many are at it."""

    def __init__(
        self, device: BlockDevice, blocks: Sequence[Range] = (), request_bytes: int = PAGE_BYTES
    ) -> None:
        self.device = device
        self._bytes = request_bytes
        self._places = Places(device, blocks, request_bytes)
        self._descriptor = os.open(device.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        self._changed = threading.Condition()
        self._active = 0
        self._closing = False
        self._threads: List[threading.Thread] = []
        self._done: List[int] = []
        self._busy_ns: List[int] = []
        self._failure: Optional[OSError] = None

    def run_with(self, concurrency: int) -> None:
        while len(self._threads) < concurrency:
            number = len(self._threads)
            self._done.append(0)
            self._busy_ns.append(0)
            thread = threading.Thread(target=self._work, args=(number,), name=f"knee-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()
        with self._changed:
            self._active = concurrency
            self._changed.notify_all()

    def counted(self) -> Tuple[int, float]:
        """Requests completed and ms waited for them so far. Raises BenchmarkFailed when a request failed."""
        if self._failure is not None:
            raise BenchmarkFailed(f"{self.device.path}: {self._failure.strerror or self._failure}")
        return sum(self._done), sum(self._busy_ns) / 1e6

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        os.close(self._descriptor)

    def _work(self, number: int) -> None:
        generator = random.Random(number)
        buffer = mmap.mmap(-1, self._bytes)
        view = memoryview(buffer)
        try:
            while self._may_go_on(number):
                self._request(number, generator, view)
        except OSError as error:
            self._failure = error
        finally:
            view.release()
            buffer.close()

    def _may_go_on(self, number: int) -> bool:
        if number < self._active and not self._closing:
            return True
        with self._changed:
            self._changed.wait_for(lambda: self._closing or number < self._active)
        return not self._closing

    def _request(self, number: int, generator: random.Random, view: memoryview) -> None:
        offset = self._places.offset(generator)
        started = time.perf_counter_ns()
        moved = os.preadv(self._descriptor, [view], offset)
        if moved != self._bytes:
            raise OSError(errno.EIO, f"only {moved} of {self._bytes} bytes at {offset}")
        self._busy_ns[number] += time.perf_counter_ns() - started
        self._done[number] += 1


_MIB = 1024 * 1024
_AGREE = 0.05


class Meter:
    def __init__(self, load: Load, settings: KneeSettings, processes: Processes) -> None:
        self._load = load
        self._name = load.device.kernel_name
        self._settings = settings
        self._processes = processes

    def measure(self, concurrency: int) -> Step:
        """Run one step: settle, then windows until two in a row agree within 5 % in rate and wait."""
        self._load.run_with(concurrency)
        time.sleep(self._settings.settle_seconds)
        statistics = nvme_counters(self._processes, self._name)
        with _witness(self._processes, self._name) as witness:
            marks = [self._mark()]
            windows: List[Step] = []
            while len(windows) < self._settings.max_windows:
                time.sleep(self._settings.window_seconds)
                marks.append(self._mark())
                windows.append(self._between(concurrency, marks[-2], marks[-1], False))
                if len(windows) > 1 and _agree(windows[-2], windows[-1]):
                    step = self._between(concurrency, marks[-3], marks[-1], True)
                    break
            else:
                step = self._between(concurrency, marks[0], marks[-1], False)
        nvme = nvme_delta(statistics, nvme_counters(self._processes, self._name))
        return replace(
            step,
            iostat=summarise_witness(witness[0], self._name) if witness else None,
            nvme=nvme,
        )

    def _mark(self) -> Dict[str, Any]:
        done, busy_ms = self._load.counted()
        return {
            "at": time.monotonic(),
            "cpu": time.process_time(),
            "done": done,
            "busy_ms": busy_ms,
            "device": disk_counters(self._name),
        }

    def _between(
        self, concurrency: int, before: Dict[str, Any], after: Dict[str, Any], settled: bool
    ) -> Step:
        seconds = after["at"] - before["at"]
        device = {name: after["device"][name] - value for name, value in before["device"].items()}
        requests = device["reads"] + device["writes"]
        own = after["done"] - before["done"]
        busy_ms = after["busy_ms"] - before["busy_ms"]
        if requests <= 0 or own <= 0:
            raise BenchmarkFailed(
                f"{self._name} completed {requests} requests in {seconds:.1f} s with {concurrency} "
                "outstanding: stalled, or the reads are answered above the device"
            )
        wait_ms = device["read_ms"] + device["write_ms"]
        return Step(
            concurrency=concurrency,
            requests_per_s=round(requests / seconds, 2),
            reads_per_s=round(device["reads"] / seconds, 2),
            writes_per_s=round(device["writes"] / seconds, 2),
            mib_per_s=round((device["read_bytes"] + device["write_bytes"]) / seconds / _MIB, 3),
            await_ms=round(wait_ms / requests, 3),
            read_await_ms=_mean(device["read_ms"], device["reads"]),
            write_await_ms=_mean(device["write_ms"], device["writes"]),
            latency_ms=round(busy_ms / own, 3),
            queue=round(device["weighted_ms"] / seconds / 1000, 2),
            util_percent=round(min(100.0, device["busy_ms"] / seconds / 10), 1),
            others_share=round(max(0.0, 1 - own / requests), 4),
            generator_cpu=round((after["cpu"] - before["cpu"]) / seconds, 3),
            settled=settled,
            seconds=round(seconds, 3),
        )


def _mean(total_ms: int, requests: int) -> Optional[float]:
    return round(total_ms / requests, 3) if requests > 0 else None


def _agree(one: Step, other: Step) -> bool:
    pairs = ((one.requests_per_s, other.requests_per_s), (one.await_ms, other.await_ms))
    return all(abs(a - b) <= _AGREE * max(a, b) for a, b in pairs)


def _witness(processes: Processes, name: str) -> ContextManager[List[str]]:
    """iostat during a block, as `iostat_during`; says nothing where sysstat is missing."""
    return iostat_during(processes, name) if shutil.which("iostat") else contextlib.nullcontext([])


def summarise_witness(report: str, name: str) -> Optional[Dict[str, float]]:
    """Rate, wait and queue of one device in iostat's JSON; None where it has no complete report."""
    try:
        summary = summarise_iostat(report, name)
    except BenchmarkFailed:
        return None
    return {key: summary[key] for key in ("r/s", "r_await", "aqu-sz")}


THROUGHPUT_READ_BYTES = 256 * 1024
_THROUGHPUT_CONCURRENCY = (8, 32)
_OTHERS_PER_S = 5.0
# Some 14 steps, each of a settling and at least two windows.
_PARTS_OF_A_SEARCH = 42
_LONGEST_SETTLE_SECONDS = 10.0
_LONGEST_WINDOW_SECONDS = 30.0


def find_knee(
    path: str,
    settings: KneeSettings,
    processes: Processes,
    on_step: Callable[[Step], None],
    allow_busy: bool = False,
    with_throughput: bool = True,
    blocks: Sequence[Range] = (),
) -> Dict[str, Any]:
    """Search on a block device with reads only, which are safe whatever is mounted.

    Reads only in `blocks` (of 512 KiB) where some are named. Raises WrongDevice when the device is none or may not
    be read, DeviceInUse when others use it now (they would suffer, and the figures with them) unless `allow_busy`.
    """
    try:
        device = describe_device(path)
    except PermissionError as error:
        raise WrongDevice(f"{path} may not be read by this user: run as root") from error
    refuse_if_busy(device, allow_busy)
    result = _run(device, blocks, settings, processes, on_step)
    result["mounted_at"] = mount_points(device)
    result["throughput"] = _throughput(device, blocks, settings, processes) if with_throughput else None
    return result


def refuse_if_busy(device: BlockDevice, allow_busy: bool) -> None:
    """Raise DeviceInUse when somebody reads or writes the device at this moment, unless that is allowed."""
    if allow_busy:
        return
    before, started = disk_counters(device.kernel_name), time.monotonic()
    time.sleep(1.0)
    after, seconds = disk_counters(device.kernel_name), time.monotonic() - started
    rate = sum(after[name] - before[name] for name in ("reads", "writes")) / seconds
    if rate >= _OTHERS_PER_S:
        places = ", ".join(mount_points(device)) or "not mounted here"
        raise DeviceInUse(
            f"{device.path} ({places}) serves {rate:.0f} requests per s for others: a search would slow them down and "
            "measure them too"
        )


def _run(
    device: BlockDevice,
    blocks: Sequence[Range],
    settings: KneeSettings,
    processes: Processes,
    on_step: Callable[[Step], None],
) -> Dict[str, Any]:
    started = time.monotonic()
    load = Load(device, blocks)
    try:
        found = search(Meter(load, settings, processes).measure, settings, on_step)
    finally:
        load.close()
    return {
        "device": device.kernel_name,
        "path": device.path,
        "request_bytes": PAGE_BYTES,
        "size_bytes": device.size_bytes,
        "steps": [asdict(step) for step in found.steps],
        "crossings": [asdict(crossing) for crossing in found.crossings],
        "full_rate": {"concurrency": found.full_rate_concurrency, "requests_per_s": found.full_rate_per_s},
        "ended": found.ended,
        "warnings": warnings_about(found),
        "seconds": round(time.monotonic() - started, 1),
    }


def settings_for(seconds: float) -> KneeSettings:
    """A search that has about this long: steps as long as fit, between what an emulated and a real volume need."""
    part = seconds / _PARTS_OF_A_SEARCH
    return KneeSettings(
        settle_seconds=min(_LONGEST_SETTLE_SECONDS, max(0.5, part)),
        window_seconds=min(_LONGEST_WINDOW_SECONDS, max(0.7, part)),
        time_limit_seconds=seconds,
    )


def in_short(result: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the receipt's summary of a search; steps as [concurrency, requests per s, await in ms]."""
    kept = ("crossings", "full_rate", "ended", "warnings", "seconds")
    steps = [[step["concurrency"], step["requests_per_s"], step["await_ms"]] for step in result["steps"]]
    return {"steps": steps, **{name: result[name] for name in kept}}


def _throughput(
    device: BlockDevice, blocks: Sequence[Range], settings: KneeSettings, processes: Processes
) -> Dict[str, Any]:
    """The most MiB/s that large random reads get; small ones run out of IOPS first."""
    load = Load(device, blocks, min(THROUGHPUT_READ_BYTES, device.size_bytes // PAGE_BYTES * PAGE_BYTES))
    meter = Meter(load, settings, processes)
    try:
        steps = [meter.measure(concurrency) for concurrency in _THROUGHPUT_CONCURRENCY]
    finally:
        load.close()
    best = max(steps, key=lambda step: step.mib_per_s)
    return {
        "request_bytes": THROUGHPUT_READ_BYTES,
        "concurrency": best.concurrency,
        "mib_per_s": best.mib_per_s,
        "await_ms": best.await_ms,
    }
