"""Finds a device's knee: the concurrency at which its answers get too slow, and the one from which it does no more.

The load is random 16 KiB reads around the page cache (a database page each), from as many threads as the step says.
Every step settles first, then is measured in windows until two in a row agree. The kernel's counters (/proc/diskstats)
are the measure, iostat is the second witness, and the generator watches its own processor time so that it is not taken
for the device's limit.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Callable, Dict, Sequence

from peaker_host.blocks.ranges import Range
from peaker_host.blocks.timed_reads import PAGE_BYTES
from peaker_host.machine.devices import BlockDevice, describe_device, disk_counters, mount_points
from peaker_host.machine.errors import DeviceInUse, WrongDevice
from peaker_host.machine.processes import Processes
from peaker_host.prove.knee_load import Load, Target
from peaker_host.prove.knee_meter import Meter
from peaker_host.prove.knee_search import KneeSettings, Step, search, warnings_about

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
    seed: int = 1,
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
    target = Target(path, device.size_bytes, device.kernel_name, tuple(blocks))
    result = _run(target, settings, processes, on_step, seed)
    result["mounted_at"] = mount_points(device)
    result["throughput"] = _throughput(target, settings, processes, seed) if with_throughput else None
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
    target: Target, settings: KneeSettings, processes: Processes, on_step: Callable[[Step], None], seed: int
) -> Dict[str, Any]:
    started = time.monotonic()
    load = Load(target, PAGE_BYTES, seed)
    try:
        found = search(Meter(load, target, settings, processes).measure, settings, on_step)
    finally:
        load.close()
    return {
        "device": target.kernel_name,
        "path": target.path,
        "request_bytes": PAGE_BYTES,
        "size_bytes": target.size_bytes,
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


def _throughput(target: Target, settings: KneeSettings, processes: Processes, seed: int) -> Dict[str, Any]:
    """The most MiB/s that large random reads get; small ones run out of IOPS first."""
    load = Load(target, min(THROUGHPUT_READ_BYTES, target.size_bytes // PAGE_BYTES * PAGE_BYTES), seed)
    meter = Meter(load, target, settings, processes)
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
