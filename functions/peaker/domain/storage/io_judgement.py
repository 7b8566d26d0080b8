"""The judgement names one device's limit in one report, with its numbers.

Rules of thumb, in the units of today's iostat:

* A request below 25 KiB (50 sectors) makes a saturated volume run out of IOPS, one above 50 KiB out of bandwidth;
  in between the crossover of a gp3 volume as delivered decides (125 MiB/s at 3,000 IOPS: 42.7 KiB).
* Requests wait when the mean wait reaches 20 ms with at least two outstanding; 50 ms is too slow for a database.
  From half of that on, with a queue, the device is at its edge.
* More than 30 outstanding that wait: the application sends more than one volume can serve; stripe wider.
* A device that is slow with nothing queued, or hardly completes anything, or whose rate at a full queue swings
  threefold with the same requests, is not loaded but disturbed: neighbours on shared storage, blocks that are
  touched for the first time, or write-back that stalls.
* A short queue and short waits: the application asks for no more, one request after the other.

%util is carried along and decides nothing: a parallel device shows 100 % at one outstanding request as at a
hundred. svctm is used where the input has it (above 100 ms the service itself is slow) and never made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_findings import (
    CpuShares,
    DeviceLoad,
    ExceededTime,
    Finding,
    IostatReport,
    Verdict,
    VolumePromise,
)

SMALL_REQUEST_KIB = 25.0
LARGE_REQUEST_KIB = 50.0
CROSSOVER_KIB = 125 * 1024 / 3000
AWAIT_LIMIT_MS = 20.0
DEEP_QUEUE = 30.0
SLOW_SERVICE_MS = 100.0
PROMISE_REACHED = 0.9
PROMISE_BROKEN = 0.5

_QUEUED = 2.0
_ALONE = 1.5
_IDLE_QUEUE = 0.05
_IDLE_RATE = 5.0
_HARDLY_ANY_PER_S = 100.0
_HARDLY_ANY_MIB_PER_S = 10.0
_STALLED_RATE = 10.0
_CACHE_AWAIT_MS = 0.2
_BUSY_CPU_IDLE_PERCENT = 10.0
_EXCEEDED_SHARE = 0.05
_FLAT_RATE = 1.1
_FLAT_QUEUE = 1.5
_MOSTLY = 0.9
SAME_SIZE = 1.25


@dataclass(frozen=True, slots=True)
class Context:
    """A context holds the facts by which a device's report is judged."""

    promise: VolumePromise
    exceeded: ExceededTime | None
    instance_iops_share: float | None
    instance_mib_share: float | None
    cpu: CpuShares | None
    flat: _Flat | None


@dataclass(frozen=True, slots=True)
class _Flat:
    """Two reports with the same kind of requests: the queue grew, the rate did not."""

    queue_low: float
    rate_low: float
    queue_high: float
    rate_high: float


NOTHING_KNOWN = Context(VolumePromise(), None, None, None, None, None)


def judge(load: DeviceLoad, context: Context) -> tuple[Finding, ...]:
    """All findings about one device in one report, the deciding one first."""
    if _is_idle(load):
        return (_finding(Verdict.IDLE, load, "no load to speak of"),)
    if load.await_ms is None and load.requests_per_s > 0:
        return (_finding(Verdict.UNKNOWN, load, "the input says nothing about waiting times"),)
    disturbed = disturbance(load, context)
    if disturbed is not None:
        return (disturbed,)
    limited = _limits_reached(load, context)
    deep = load.queue > DEEP_QUEUE and (load.await_ms or 0.0) >= AWAIT_LIMIT_MS
    queueing = _finding(
        Verdict.QUEUEING,
        load,
        f"{load.queue:.0f} requests outstanding (more than {DEEP_QUEUE:g}), each waits {load.await_ms or 0:.0f} ms",
    )
    if limited:
        return (*limited, queueing) if deep else limited
    if _waits(load):
        by_size = _by_size(load, context)
        return (queueing, by_size) if deep else (by_size,)
    return (_application_limited(load, context),)


def _is_idle(load: DeviceLoad) -> bool:
    """Tells whether nothing is outstanding and next to nothing was done. Requests outstanding without
    completion are a stall, not idle.
    """
    return load.queue < _IDLE_QUEUE and (load.requests_per_s < _IDLE_RATE)


def _waits(load: DeviceLoad) -> bool:
    return load.queue >= _QUEUED and load.await_ms is not None and load.await_ms >= AWAIT_LIMIT_MS / 2


def is_saturated(load: DeviceLoad) -> bool:
    return load.queue >= _QUEUED and load.await_ms is not None and load.await_ms >= AWAIT_LIMIT_MS


def disturbance(load: DeviceLoad, context: Context) -> Finding | None:
    """Slow without being loaded."""
    wait = load.await_ms
    if wait is None:
        if load.queue < 0.5:
            return None
        return contention(load, f"{load.queue:.0f} requests outstanding, none completed during the report")
    if load.requests_per_s < _STALLED_RATE and load.queue >= 1 and wait >= SLOW_SERVICE_MS:
        return contention(
            load,
            f"{load.requests_per_s:.1f} requests completed per s, {load.queue:.0f} outstanding, {wait:,.0f} ms each",
        )
    if load.svctm_ms is not None and load.svctm_ms >= SLOW_SERVICE_MS:
        return contention(load, f"the service alone took {load.svctm_ms:.0f} ms a request (svctm)")
    if load.queue <= _ALONE and wait >= AWAIT_LIMIT_MS and load.requests_per_s >= 1:
        return contention(
            load, f"{wait:.0f} ms a request with {load.queue:.1f} outstanding: nothing queues, it is slow"
        )
    if (
        load.queue >= 1
        and wait >= SLOW_SERVICE_MS
        and load.requests_per_s < _HARDLY_ANY_PER_S
        and load.mib_per_s < _HARDLY_ANY_MIB_PER_S
    ):
        return contention(
            load,
            f"{load.requests_per_s:.0f} requests and {load.mib_per_s:.1f} MiB per s with {load.queue:.0f} outstanding: "
            "less than any volume is sold with",
        )
    share = _promise_share(load, context.promise)
    instance_busy = (
        max(context.instance_iops_share or 0.0, context.instance_mib_share or 0.0) >= PROMISE_REACHED
    )
    if share is not None and share < PROMISE_BROKEN and is_saturated(load) and not instance_busy:
        return contention(
            load, f"{share:.0%} of what the volume promises while {load.queue:.0f} requests wait"
        )
    return None


def _limits_reached(load: DeviceLoad, context: Context) -> tuple[Finding, ...]:
    """Limits that are proven: by the NVMe statistics, by the plan, or by a rate that a longer queue did not raise."""
    for finding in (
        _exceeded(load, context.exceeded),
        _instance_reached(load, context),
        _volume_reached(load, context.promise),
    ):
        if finding is not None:
            return (finding,)
    flat = context.flat
    if flat is None or not _waits(load):
        return ()
    by_size = _by_size(load, context)
    reason = (
        f"the rate no longer grows: {flat.rate_low:,.0f}/s with {flat.queue_low:.1f} outstanding, "
        f"{flat.rate_high:,.0f}/s with {flat.queue_high:.1f}; {by_size.reason}"
    )
    return (replace(by_size, reason=reason),)


def _exceeded(load: DeviceLoad, exceeded: ExceededTime | None) -> Finding | None:
    if exceeded is None or exceeded.seconds <= 0:
        return None
    times = (
        (exceeded.volume_iops, Verdict.IOPS_LIMITED, "the volume's IOPS"),
        (exceeded.volume_throughput, Verdict.BANDWIDTH_LIMITED, "the volume's throughput"),
        (exceeded.instance_iops, Verdict.INSTANCE_LIMITED, "the instance's EBS IOPS"),
        (exceeded.instance_throughput, Verdict.INSTANCE_LIMITED, "the instance's EBS throughput"),
    )
    longest, verdict, what = max(times, key=lambda time: time[0])
    if longest < _EXCEEDED_SHARE * exceeded.seconds:
        return None
    return _finding(
        verdict,
        load,
        f"demand was above {what} for {longest:.1f} of {exceeded.seconds:.0f} s (NVMe statistics)",
        exceeded_share=longest / exceeded.seconds,
    )


def _instance_reached(load: DeviceLoad, context: Context) -> Finding | None:
    shares = [
        (share, name)
        for share, name in ((context.instance_iops_share, "IOPS"), (context.instance_mib_share, "MiB/s"))
        if share is not None
    ]
    share, name = max(shares, default=(0.0, ""))
    own = _promise_share(load, context.promise)
    if share < PROMISE_REACHED or (own is not None and own >= share):
        return None
    burst = ", a burst that will not last" if share > 2 - PROMISE_REACHED else ""
    return _finding(
        Verdict.INSTANCE_LIMITED,
        load,
        f"all devices together take {share:.0%} of the instance's baseline {name}{burst}",
        instance_share=share,
    )


def _volume_reached(load: DeviceLoad, promise: VolumePromise) -> Finding | None:
    iops, bandwidth = _promise_shares(load, promise)
    if max(iops or 0.0, bandwidth or 0.0) < PROMISE_REACHED:
        return None
    if (iops or 0.0) >= (bandwidth or 0.0):
        reason = f"{load.requests_per_s:,.0f} of {promise.iops:,.0f} IOPS promised ({iops:.0%})"
        return _finding(Verdict.IOPS_LIMITED, load, reason, promise_share=iops or 0.0)
    reason = f"{load.mib_per_s:,.1f} of {promise.mib_per_s:,.0f} MiB/s promised ({bandwidth:.0%})"
    return _finding(Verdict.BANDWIDTH_LIMITED, load, reason, promise_share=bandwidth or 0.0)


def _by_size(load: DeviceLoad, context: Context) -> Finding:
    """Finds the resource that a device with waiting requests runs out of, by the size of the requests or by
    the nearer promise.
    """
    size = load.request_kib or 0.0
    wait = load.await_ms or 0.0
    edge = f"at its edge, {wait:.0f} ms a request" if wait < AWAIT_LIMIT_MS else f"{wait:.0f} ms a request"
    iops, bandwidth = _promise_shares(load, context.promise)
    if iops is not None and bandwidth is not None:
        verdict = Verdict.IOPS_LIMITED if iops >= bandwidth else Verdict.BANDWIDTH_LIMITED
        return _finding(
            verdict, load, f"{edge} at {iops:.0%} of the IOPS and {bandwidth:.0%} of the MiB/s promised"
        )
    if size < SMALL_REQUEST_KIB:
        return _finding(Verdict.IOPS_LIMITED, load, f"{edge} with small requests ({size:.1f} KiB)")
    if size > LARGE_REQUEST_KIB:
        return _finding(Verdict.BANDWIDTH_LIMITED, load, f"{edge} with large requests ({size:.0f} KiB)")
    verdict = Verdict.IOPS_LIMITED if size < CROSSOVER_KIB else Verdict.BANDWIDTH_LIMITED
    return _finding(verdict, load, f"{edge}; {size:.0f} KiB a request is between small and large")


def _application_limited(load: DeviceLoad, context: Context) -> Finding:
    wait = load.await_ms
    if wait is None:
        return _finding(Verdict.APPLICATION_LIMITED, load, "next to nothing is asked of it")
    if wait < _CACHE_AWAIT_MS and load.requests_per_s >= _IDLE_RATE:
        reason = f"{wait:.2f} ms a request: a cache answers, not the medium; nothing waits"
    elif 0.7 <= load.queue <= _ALONE:
        reason = f"one request at a time ({load.queue:.1f} outstanding), {wait:.1f} ms each: it waits for every answer"
    else:
        reason = f"{load.queue:.1f} requests outstanding, {wait:.1f} ms each: nothing waits long"
    if context.cpu is not None and context.cpu.idle < _BUSY_CPU_IDLE_PERCENT and context.cpu.iowait < 1:
        reason += f"; the processors are busy ({context.cpu.idle:.0f} % idle)"
    return _finding(Verdict.APPLICATION_LIMITED, load, reason)


def contention(load: DeviceLoad, reason: str) -> Finding:
    if (
        load.writes_per_s is not None
        and load.reads_per_s == 0
        and (load.writes_per_s > 0 or load.await_ms is None)
    ):
        if load.merged_writes_per_s and load.merged_writes_per_s > load.writes_per_s:
            reason += " (write-back of the page cache)"
        elif load.writes_per_s > 0:
            reason += " (writes)"
    return _finding(Verdict.SHARED_STORAGE_CONTENTION, load, reason)


def _finding(verdict: Verdict, load: DeviceLoad, reason: str, **more: float) -> Finding:
    return Finding(verdict, reason, {**load_numbers(load), **more})


def load_numbers(load: DeviceLoad) -> dict[str, float]:
    """The evidence of a row under iostat's names; what the input lacks is absent."""
    named = {
        "r/s": load.reads_per_s,
        "w/s": load.writes_per_s,
        "requests/s": load.requests_per_s,
        "MiB/s": round(load.mib_per_s, 3),
        "areq-sz KiB": load.request_kib,
        "aqu-sz": load.queue,
        "await ms": load.await_ms,
        "svctm ms": load.svctm_ms,
        "%util (not used)": load.util_percent,
    }
    return {name: value for name, value in named.items() if value is not None}


def _promise_shares(load: DeviceLoad, promise: VolumePromise) -> tuple[float | None, float | None]:
    return (
        load.requests_per_s / promise.iops if promise.iops else None,
        load.mib_per_s / promise.mib_per_s if promise.mib_per_s else None,
    )


def _promise_share(load: DeviceLoad, promise: VolumePromise) -> float | None:
    shares = [share for share in _promise_shares(load, promise) if share is not None]
    return max(shares, default=None)


def instance_shares(
    report: IostatReport, instance: InstancePromise | None
) -> tuple[float | None, float | None]:
    if instance is None:
        return None, None
    whole = [load for load in report.devices if not _is_part_or_stack(load.device, report)]
    requests = sum(load.requests_per_s for load in whole)
    amount = sum(load.mib_per_s for load in whole)
    return (
        requests / instance.baseline_iops if instance.baseline_iops else None,
        amount / instance.baseline_mib_per_s if instance.baseline_mib_per_s else None,
    )


def _is_part_or_stack(name: str, report: IostatReport) -> bool:
    """Partitions of a device that is listed too, and md, dm and loop devices, would be counted twice."""
    others = [load.device for load in report.devices if load.device != name]
    if any(name.startswith(other) and name[len(other) :].lstrip("p").isdigit() for other in others):
        return True
    stacked = name.startswith(("md", "dm-", "loop"))
    return stacked and any(not other.startswith(("md", "dm-", "loop")) for other in others)


def flat_with(load: DeviceLoad, others: Sequence[DeviceLoad]) -> _Flat | None:
    """Another report with the same kind of requests and another queue, but no higher rate at the longer one."""
    for other in others:
        low, high = sorted((load, other), key=lambda one: one.queue)
        if (
            _same_kind(low, high)
            and low.queue >= 0.7
            and high.queue >= low.queue * _FLAT_QUEUE
            and is_saturated(high)
            and 1 / _FLAT_RATE < high.requests_per_s / low.requests_per_s < _FLAT_RATE
        ):
            return _Flat(low.queue, low.requests_per_s, high.queue, high.requests_per_s)
    return None


def _same_kind(one: DeviceLoad, other: DeviceLoad) -> bool:
    if not one.request_kib or not other.request_kib or not one.requests_per_s or not other.requests_per_s:
        return False
    low, high = sorted((one.request_kib, other.request_kib))
    return high / low <= SAME_SIZE and direction(one) == direction(other)


def direction(load: DeviceLoad) -> str:
    if load.reads_per_s is None or load.requests_per_s <= 0:
        return "unknown"
    share = load.reads_per_s / load.requests_per_s
    return "reads" if share >= _MOSTLY else "writes" if share <= 1 - _MOSTLY else "mixed"
