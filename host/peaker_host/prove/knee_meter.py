"""Measures one step of a load: the kernel's counters, with iostat and the NVMe statistics beside them."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import replace
from typing import Any, ContextManager, Dict, List, Optional

from peaker_host.machine.devices import disk_counters
from peaker_host.machine.errors import BenchmarkFailed
from peaker_host.machine.processes import Processes
from peaker_host.prove.knee_load import Load, Target
from peaker_host.prove.knee_search import KneeSettings, Step
from peaker_host.prove.load_test import iostat_during, nvme_counters, nvme_delta, summarise_iostat

_MIB = 1024 * 1024
_AGREE = 0.05


class Meter:
    """Measures steps of one load on one target."""

    def __init__(self, load: Load, target: Target, settings: KneeSettings, processes: Processes) -> None:
        self._load = load
        self._target = target
        self._settings = settings
        self._processes = processes

    def measure(self, concurrency: int) -> Step:
        """Run one step: settle, then windows until two in a row agree within 5 % in rate and wait."""
        self._load.run_with(concurrency)
        time.sleep(self._settings.settle_seconds)
        statistics = nvme_counters(self._processes, self._target.kernel_name)
        with _witness(self._processes, self._target.kernel_name) as witness:
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
        return replace(
            step,
            iostat=summarise_witness(witness[0], self._target.kernel_name) if witness else None,
            nvme=nvme,
        )

    def _mark(self) -> Dict[str, Any]:
        done, busy_ms = self._load.counted()
        return {
            "at": time.monotonic(),
            "cpu": time.process_time(),
            "done": done,
            "busy_ms": busy_ms,
            "device": disk_counters(self._target.kernel_name),
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
