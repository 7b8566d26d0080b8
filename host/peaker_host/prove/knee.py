"""Finds a device's knee: the concurrency at which its answers get too slow, and the one from which it does no more.

The load is random 16 KiB reads around the page cache (a database page each), from as many threads as the step
says; on a scratch file also with a write after every two reads. Every step settles first, then is measured in
windows until two in a row agree. The kernel's counters (/proc/diskstats) are the measure, iostat is the second
witness, and the generator watches its own processor time so that it is not taken for the device's limit.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import json
import math
import mmap
import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from peaker_host.blocks.ranges import BLOCK_BYTES, Range
from peaker_host.machine.devices import BlockDevice, describe_device, disk_counters, kernel_name, mount_points
from peaker_host.machine.errors import BenchmarkFailed, DeviceInUse, InvalidArgument, WrongDevice
from peaker_host.machine.processes import Processes
from peaker_host.prove.load_test import nvme_counters, nvme_delta

PAGE_BYTES = 16384
THROUGHPUT_READ_BYTES = 256 * 1024
_MIB = 1024 * 1024
_THROUGHPUT_CONCURRENCY = (8, 32)
_MIX_READS_OF_THREE = 2
_AGREE = 0.05
_GROWS = 1.05
_FULL_RATE = 0.95
_REFINEMENTS = 4
_FINE = 0.05
_OTHERS_PER_S = 5.0
_OTHERS_SHARE = 0.05
_GENERATOR_FULL = 0.9
_REACHES_DEVICE = 0.7
_ENOUGH_TO_TELL = 8
_FREE_SPACE_FACTOR = 2
# Some 14 steps, each of a settling and at least two windows.
_PARTS_OF_A_SEARCH = 42
_LONGEST_SETTLE_SECONDS = 10.0
_LONGEST_WINDOW_SECONDS = 30.0


@dataclass(frozen=True)
class KneeSettings:
    """How to search. Seconds per step are settle + 2 to `max_windows` windows."""

    max_concurrency: int = 256
    settle_seconds: float = 2.0
    window_seconds: float = 2.0
    max_windows: int = 5
    await_limits_ms: Tuple[float, ...] = (20.0, 50.0)
    time_limit_seconds: float = 900.0


@dataclass(frozen=True)
class Member:
    """One device under an array or a logical volume, during a step."""

    device: str
    requests_per_s: float
    await_ms: Optional[float]


@dataclass(frozen=True)
class Step:
    """One concurrency, measured. Waits in ms; None is "nothing completed" or "no such witness"."""

    concurrency: int
    requests_per_s: float
    reads_per_s: float
    writes_per_s: float
    mib_per_s: float
    await_ms: float
    read_await_ms: Optional[float]
    write_await_ms: Optional[float]
    latency_ms: float
    queue: float
    util_percent: float
    others_share: float
    generator_cpu: float
    settled: bool
    seconds: float
    iostat: Optional[Dict[str, float]] = None
    nvme: Optional[Dict[str, int]] = None
    members: List[Member] = field(default_factory=list)


@dataclass(frozen=True)
class Crossing:
    """Where await reaches a limit. `concurrency` is interpolated between the two steps around it."""

    await_limit_ms: float
    concurrency: Optional[float]
    requests_per_s: Optional[float]
    between: Optional[Tuple[int, int]]


@dataclass(frozen=True)
class Search:
    """Steps by rising concurrency, crossings, and where the rate stops growing."""

    steps: List[Step]
    crossings: List[Crossing]
    full_rate_concurrency: int
    full_rate_per_s: float
    ended: str


@dataclass(frozen=True)
class Target:
    """What is measured: a device to read, or a scratch file to read and write and the device under it."""

    path: str
    size_bytes: int
    kernel_name: str
    members: Tuple[str, ...]
    writes: bool
    blocks: Tuple[Range, ...] = ()
    """Where on it; everywhere when empty."""


class _Places:
    """Aligned offsets at which a request lies wholly inside the target, and inside its blocks if it names some."""

    def __init__(self, target: Target, request_bytes: int) -> None:
        self._bytes = request_bytes
        runs = target.blocks or ((0, (target.size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES),)
        self._first: List[int] = []
        self._upto: List[int] = []
        for start, count in runs:
            first = start * BLOCK_BYTES // request_bytes
            end = min((start + count) * BLOCK_BYTES, target.size_bytes) // request_bytes
            if end > first:
                self._first.append(first)
                self._upto.append((self._upto[-1] if self._upto else 0) + end - first)
        if not self._upto:
            raise InvalidArgument(f"{target.path} has no room for a request of {request_bytes} bytes")

    def offset(self, generator: random.Random) -> int:
        place = generator.randrange(self._upto[-1])
        run = bisect.bisect_right(self._upto, place)
        before = self._upto[run - 1] if run else 0
        return (self._first[run] + place - before) * self._bytes


class Load:
    """Threads that read (and write) random pages; `run_with` sets how many are at it."""

    def __init__(self, target: Target, request_bytes: int, seed: int) -> None:
        self._target = target
        self._bytes = request_bytes
        self._places = _Places(target, request_bytes)
        self._seed = seed
        flags = os.O_RDWR if target.writes else os.O_RDONLY
        self._descriptor = os.open(target.path, flags | os.O_DIRECT | os.O_CLOEXEC)
        self._changed = threading.Condition()
        self._active = 0
        self._closing = False
        self._threads: List[threading.Thread] = []
        self._done: List[int] = []
        self._busy_ns: List[int] = []
        self._failure: Optional[OSError] = None

    def run_with(self, concurrency: int) -> None:
        """Let this many threads work from now on."""
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
            raise BenchmarkFailed(f"{self._target.path}: {self._failure.strerror or self._failure}")
        return sum(self._done), sum(self._busy_ns) / 1e6

    def close(self) -> None:
        """Stop all threads and wait for their last requests."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        os.close(self._descriptor)

    def _work(self, number: int) -> None:
        generator = random.Random(f"{self._seed}/{number}")
        buffer = mmap.mmap(-1, self._bytes)
        buffer.write(generator.getrandbits(8 * self._bytes).to_bytes(self._bytes, "little"))
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
        write = self._target.writes and generator.randrange(_MIX_READS_OF_THREE + 1) == _MIX_READS_OF_THREE
        started = time.perf_counter_ns()
        transfer = os.pwritev if write else os.preadv
        moved = transfer(self._descriptor, [view], offset)
        if moved != self._bytes:
            raise OSError(errno.EIO, f"only {moved} of {self._bytes} bytes at {offset}")
        self._busy_ns[number] += time.perf_counter_ns() - started
        self._done[number] += 1


class Meter:
    """Measures steps of one load on one target."""

    def __init__(
        self, load: Load, target: Target, request_bytes: int, settings: KneeSettings, processes: Processes
    ) -> None:
        self._load = load
        self._target = target
        self._request_bytes = request_bytes
        self._settings = settings
        self._processes = processes

    def measure(self, concurrency: int) -> Step:
        """Run one step: settle, then windows until two in a row agree within 5 % in rate and wait."""
        self._load.run_with(concurrency)
        time.sleep(self._settings.settle_seconds)
        statistics = nvme_counters(self._processes, self._target.kernel_name)
        with _iostat_beside(self._processes, self._target.kernel_name) as witness:
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
        nvme = nvme_delta(statistics, nvme_counters(self._processes, self._target.kernel_name))
        return replace(step, iostat=summarise_witness(witness[0]) if witness else None, nvme=nvme)

    def _mark(self) -> Dict[str, Any]:
        done, busy_ms = self._load.counted()
        return {
            "at": time.monotonic(),
            "cpu": time.process_time(),
            "done": done,
            "busy_ms": busy_ms,
            "device": disk_counters(self._target.kernel_name),
            "members": {name: disk_counters(name) for name in self._target.members},
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
                f"{self._target.kernel_name} completed {requests} requests in {seconds:.1f} s with {concurrency} "
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
            members=_members(before["members"], after["members"], seconds),
        )


def search(
    measure: Callable[[int], Step],
    settings: KneeSettings,
    on_step: Callable[[Step], None],
    clock: Callable[[], float] = time.monotonic,
) -> Search:
    """Double the concurrency until the rate stops growing, go on to each limit by Little's law, then refine.

    `measure` is called with each concurrency at most once. Ends early, and says so, at the time limit, at the
    highest concurrency allowed, or when the generator itself has no processor time left.
    """
    seen: Dict[int, Step] = {}
    deadline = clock() + settings.time_limit_seconds

    def take(concurrency: int) -> bool:
        if concurrency in seen or clock() > deadline:
            return False
        step = measure(concurrency)
        seen[concurrency] = step
        on_step(step)
        return True

    ended = _climb(seen, take, settings)
    for limit in settings.await_limits_ms:
        for _ in range(_REFINEMENTS):
            finer = _between_crossing(seen, limit)
            if finer is None or not take(finer):
                break
    for _ in range(_REFINEMENTS):
        finer = _below_full_rate(seen)
        if finer is None or not take(finer):
            break
    if clock() > deadline:
        ended = "time limit"
    steps = [seen[concurrency] for concurrency in sorted(seen)]
    full = _full_rate_step(steps)
    crossings = [_crossing(steps, limit) for limit in settings.await_limits_ms]
    return Search(steps, crossings, full.concurrency, full.requests_per_s, ended)


def _climb(seen: Dict[int, Step], take: Callable[[int], bool], settings: KneeSettings) -> str:
    highest_limit = max(settings.await_limits_ms)
    concurrency = 1
    last: Optional[Step] = None
    while take(concurrency):
        step = seen[concurrency]
        if _generator_is_the_limit(step):
            return "generator limited"
        flat = last is not None and step.requests_per_s < last.requests_per_s * _GROWS
        if step.await_ms >= highest_limit and (flat or concurrency == settings.max_concurrency):
            return "found"
        if concurrency >= settings.max_concurrency:
            return "highest concurrency"
        concurrency = min(settings.max_concurrency, _next(step, flat, settings.await_limits_ms))
        last = step
    return "time limit"


def _generator_is_the_limit(step: Step) -> bool:
    """No processor time left, or far fewer requests reach the device than there are threads to ask."""
    missing = step.concurrency >= _ENOUGH_TO_TELL and step.queue < _REACHES_DEVICE * step.concurrency
    return missing or step.generator_cpu >= _GENERATOR_FULL


def _next(step: Step, flat: bool, limits: Sequence[float]) -> int:
    """At a rate that no longer grows, await = concurrency / rate tells where the next limit lies."""
    open_limits = [limit for limit in sorted(limits) if limit > step.await_ms]
    if not flat or not open_limits:
        return step.concurrency * 2
    predicted = math.ceil(open_limits[0] / 1000 * step.requests_per_s)
    return max(step.concurrency + 1, predicted)


def _bracket(steps: Sequence[Step], limit: float) -> Optional[Tuple[Step, Step]]:
    for low, high in zip(steps, steps[1:]):
        if low.await_ms < limit <= high.await_ms:
            return low, high
    return None


def _between_crossing(seen: Dict[int, Step], limit: float) -> Optional[int]:
    """The concurrency that narrows a crossing best; None when it is narrow enough or not there."""
    pair = _bracket([seen[concurrency] for concurrency in sorted(seen)], limit)
    if pair is None:
        return None
    low, high = pair
    gap = high.concurrency - low.concurrency
    if gap <= max(1, int(low.concurrency * _FINE)):
        return None
    guess = round(_interpolated(low, high, limit))
    return min(high.concurrency - 1, max(low.concurrency + 1, guess))


def _below_full_rate(seen: Dict[int, Step]) -> Optional[int]:
    steps = [seen[concurrency] for concurrency in sorted(seen)]
    full = _full_rate_step(steps)
    below = [step.concurrency for step in steps if step.concurrency < full.concurrency]
    if not below or full.concurrency - below[-1] <= max(1, int(full.concurrency * _FINE * 2)):
        return None
    return (full.concurrency + below[-1]) // 2


def _full_rate_step(steps: Sequence[Step]) -> Step:
    """The first step that does 95 % of the most that any step did."""
    best = max(step.requests_per_s for step in steps)
    return next(step for step in steps if step.requests_per_s >= best * _FULL_RATE)


def _crossing(steps: Sequence[Step], limit: float) -> Crossing:
    pair = _bracket(steps, limit)
    if pair is None:
        if steps[0].await_ms >= limit:
            return Crossing(limit, float(steps[0].concurrency), steps[0].requests_per_s, None)
        return Crossing(limit, None, None, None)
    low, high = pair
    return Crossing(
        limit,
        round(_interpolated(low, high, limit), 2),
        round((low.requests_per_s + high.requests_per_s) / 2, 1),
        (low.concurrency, high.concurrency),
    )


def _interpolated(low: Step, high: Step, limit: float) -> float:
    share = (limit - low.await_ms) / (high.await_ms - low.await_ms)
    return low.concurrency + share * (high.concurrency - low.concurrency)


def find_knee(
    path: str,
    settings: KneeSettings,
    processes: Processes,
    on_step: Callable[[Step], None],
    allow_busy: bool = False,
    with_throughput: bool = True,
    seed: int = 1,
    blocks: Sequence[Range] = (),
) -> Dict[str, Any]:
    """Search on a block device with reads only, which are safe whatever is mounted.

    Reads only in `blocks` (of 512 KiB) where some are named. Raises WrongDevice when the device is none or may not
    be read, DeviceInUse when others use it now (they would suffer, and the figures with them) unless `allow_busy`.
    """
    device = _described(path)
    refuse_if_busy(device, allow_busy)
    target = Target(path, device.size_bytes, device.kernel_name, _members_of(device.kernel_name), False)
    target = replace(target, blocks=tuple(blocks))
    result = _run(target, settings, processes, on_step, seed)
    result["mounted_at"] = mount_points(device)
    result["throughput"] = _throughput(target, settings, processes, seed) if with_throughput else None
    return result


def find_mixed_knee(
    directory: str,
    scratch_bytes: int,
    settings: KneeSettings,
    processes: Processes,
    on_step: Callable[[Step], None],
    allow_busy: bool = False,
    seed: int = 1,
) -> Dict[str, Any]:
    """Search with two reads to one write on a scratch file made in `directory` and removed afterwards.

    Never writes to anything else. Raises InvalidArgument when the filesystem has no device of its own, has too
    little room, or cannot do direct I/O; DeviceInUse as `find_knee` does.
    """
    device = _device_under(directory)
    refuse_if_busy(device, allow_busy)
    with scratch_file(directory, scratch_bytes) as path:
        target = Target(path, scratch_bytes, device.kernel_name, _members_of(device.kernel_name), True)
        result = _run(target, settings, processes, on_step, seed)
    result["scratch_bytes"] = scratch_bytes
    return result


@contextlib.contextmanager
def scratch_file(directory: str, size_bytes: int) -> Iterator[str]:
    """A new file filled with data, so that no write is a first write; removed in the end, whatever happens."""
    room = os.statvfs(directory)
    if room.f_bavail * room.f_frsize < size_bytes * _FREE_SPACE_FACTOR:
        raise InvalidArgument(
            f"{directory} has {room.f_bavail * room.f_frsize // _MIB} MiB free; "
            f"a scratch file of {size_bytes // _MIB} MiB needs twice its size"
        )
    path = os.path.join(directory, f".peaker-knee-{os.getpid()}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror} (direct I/O is needed)") from error
    try:
        _fill(descriptor, size_bytes)
        os.fsync(descriptor)
        os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


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
    target: Target, settings: KneeSettings, processes: Processes, on_step: Callable[[Step], None], seed: int
) -> Dict[str, Any]:
    started = time.monotonic()
    load = Load(target, PAGE_BYTES, seed)
    try:
        found = search(Meter(load, target, PAGE_BYTES, settings, processes).measure, settings, on_step)
    finally:
        load.close()
    return {
        "device": target.kernel_name,
        "path": target.path,
        "pattern": "two reads to one write" if target.writes else "reads",
        "request_bytes": PAGE_BYTES,
        "size_bytes": target.size_bytes,
        "members": list(target.members),
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
    """What a receipt needs of a search; steps as [concurrency, requests per s, await in ms]."""
    kept = ("crossings", "full_rate", "ended", "warnings", "seconds")
    steps = [[step["concurrency"], step["requests_per_s"], step["await_ms"]] for step in result["steps"]]
    return {"steps": steps, **{name: result[name] for name in kept}}


def warnings_about(found: Search) -> List[str]:
    """What makes the figures less certain than they look."""
    said = []
    unsettled = [step.concurrency for step in found.steps if not step.settled]
    if unsettled:
        said.append(f"did not settle at concurrency {', '.join(map(str, unsettled))}")
    others = max(step.others_share for step in found.steps)
    if others > _OTHERS_SHARE:
        said.append(f"up to {others:.0%} of the device's requests were those of others")
    if found.ended == "generator limited":
        said.append(
            "the generator, not the device, was at its limit: the device can do more than was asked of it"
        )
    elif found.ended != "found":
        said.append(f"the search ended early: {found.ended}")
    disagreeing = [step.concurrency for step in found.steps if _witness_disagrees(step)]
    if disagreeing:
        said.append(f"iostat disagrees by more than 10 % at concurrency {', '.join(map(str, disagreeing))}")
    return said


def _witness_disagrees(step: Step) -> bool:
    if step.iostat is None or not step.settled or step.read_await_ms is None or step.read_await_ms < 1:
        return False
    return abs(step.iostat["r_await"] - step.read_await_ms) > 0.1 * step.read_await_ms


def _throughput(target: Target, settings: KneeSettings, processes: Processes, seed: int) -> Dict[str, Any]:
    """The most MiB/s that large random reads get; small ones run out of IOPS first."""
    load = Load(target, min(THROUGHPUT_READ_BYTES, target.size_bytes // PAGE_BYTES * PAGE_BYTES), seed)
    meter = Meter(load, target, THROUGHPUT_READ_BYTES, settings, processes)
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


def _described(path: str) -> BlockDevice:
    try:
        return describe_device(path)
    except PermissionError as error:
        raise WrongDevice(f"{path} may not be read by this user: run as root") from error


def _device_under(directory: str) -> BlockDevice:
    try:
        number = os.stat(directory).st_dev
    except OSError as error:
        raise InvalidArgument(f"{directory}: {error.strerror}") from error
    if not os.path.isdir(directory):
        raise InvalidArgument(f"{directory} is not a directory: the scratch file is made in one")
    if os.major(number) == 0:
        raise InvalidArgument(
            f"{directory} lies on no block device (tmpfs, overlay, btrfs or a network filesystem)"
        )
    name = kernel_name(os.major(number), os.minor(number))
    return _described(os.path.join("/dev", name.replace("!", "/")))


def _members_of(name: str) -> Tuple[str, ...]:
    """The devices right under an array or a logical volume; none for a plain device."""
    try:
        return tuple(sorted(os.listdir(f"/sys/class/block/{name}/slaves")))
    except OSError:
        return ()


def _members(
    before: Dict[str, Dict[str, int]], after: Dict[str, Dict[str, int]], seconds: float
) -> List[Member]:
    members = []
    for name, counters in before.items():
        requests = sum(after[name][kind] - counters[kind] for kind in ("reads", "writes"))
        wait_ms = sum(after[name][kind] - counters[kind] for kind in ("read_ms", "write_ms"))
        members.append(Member(name, round(requests / seconds, 2), _mean(wait_ms, requests)))
    return members


def _mean(total_ms: int, requests: int) -> Optional[float]:
    return round(total_ms / requests, 3) if requests > 0 else None


def _agree(one: Step, other: Step) -> bool:
    pairs = ((one.requests_per_s, other.requests_per_s), (one.await_ms, other.await_ms))
    return all(abs(a - b) <= _AGREE * max(a, b) for a, b in pairs)


def _fill(descriptor: int, size_bytes: int) -> None:
    buffer = mmap.mmap(-1, _MIB)
    buffer.write(os.urandom(_MIB))
    try:
        for offset in range(0, size_bytes, _MIB):
            os.pwrite(descriptor, buffer, offset)
    finally:
        buffer.close()


@contextlib.contextmanager
def _iostat_beside(processes: Processes, name: str) -> Iterator[List[str]]:
    """Runs iostat during the block; its JSON is in the list afterwards. Stays empty where sysstat is missing."""
    output: List[str] = []
    if not _installed("iostat"):
        yield output
        return
    child = processes.start(["iostat", "-x", "-y", "-o", "JSON", "-d", name, "1"])
    try:
        yield output
    finally:
        child.send_signal(signal.SIGINT)
        try:
            said, _ = child.communicate(timeout=5)
            output.append(said)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def _installed(program: str) -> bool:
    return any(
        os.access(os.path.join(folder, program), os.X_OK)
        for folder in os.environ.get("PATH", "").split(os.pathsep)
    )


def summarise_witness(report: str) -> Optional[Dict[str, float]]:
    """Mean rate and request-weighted waits of iostat's JSON; None when it was cut or has no whole report."""
    try:
        entries = json.loads(report)["sysstat"]["hosts"][0]["statistics"]
        rows = [row for entry in entries for row in entry["disk"]]
        reads = sum(float(row["r/s"]) for row in rows)
        if reads <= 0:
            return None
        wait = sum(float(row["r_await"]) * float(row["r/s"]) for row in rows) / reads
        queue = sum(float(row["aqu-sz"]) for row in rows) / len(rows)
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return {"r/s": round(reads / len(rows), 2), "r_await": round(wait, 3), "aqu-sz": round(queue, 2)}
