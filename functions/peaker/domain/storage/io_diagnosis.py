"""What limits a device, from what iostat says about it, with the numbers that say so and what to do.

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

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from statistics import median

from peaker.domain.storage.device_load import CpuShares, DeviceLoad, IostatReport

SMALL_REQUEST_KIB = 25.0
LARGE_REQUEST_KIB = 50.0
CROSSOVER_KIB = 125 * 1024 / 3000
AWAIT_LIMIT_MS = 20.0
DEEP_QUEUE = 30.0
SLOW_SERVICE_MS = 100.0
PROMISE_REACHED = 0.9
PROMISE_BROKEN = 0.5
ANY_DEVICE = "*"

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
_SAME_SIZE = 1.25
_SWING = 3.0
_SWING_REPORTS = 4
_MOSTLY = 0.9


class Verdict(StrEnum):
    """What limits the device."""

    IOPS_LIMITED = "IOPS-limited"
    BANDWIDTH_LIMITED = "bandwidth-limited"
    QUEUEING = "queueing"
    SHARED_STORAGE_CONTENTION = "shared-storage contention"
    INSTANCE_LIMITED = "instance-limited"
    APPLICATION_LIMITED = "application-limited"
    IDLE = "idle"
    UNKNOWN = "unknown"


ADVICE: Mapping[Verdict, str] = {
    Verdict.IOPS_LIMITED: (
        "Raise the volume's IOPS or stripe over more volumes; fewer, larger requests help as well "
        "(a larger buffer pool, fewer random reads)."
    ),
    Verdict.BANDWIDTH_LIMITED: "Raise the volume's throughput or stripe over more volumes; more IOPS do not help.",
    Verdict.QUEUEING: "Stripe over more volumes (RAID 0 or LVM), or let fewer threads ask at a time.",
    Verdict.SHARED_STORAGE_CONTENTION: (
        "Not the load's doing. Prewarm blocks that were never touched (restored volume: read them; empty one: write "
        "them). If it stays: compare day and night, look at VolumeStalledIOCheck and `nvme amzn stats`, move the "
        "data to another volume, or one with promised IOPS."
    ),
    Verdict.INSTANCE_LIMITED: (
        "Choose an instance type with a higher EBS baseline; IOPS provisioned above it are paid for and not delivered."
    ),
    Verdict.APPLICATION_LIMITED: (
        "The storage is not what limits. If it is too slow all the same: more requests in parallel, fewer round "
        "trips, look at processors and locks."
    ),
    Verdict.IDLE: "Nothing to do.",
    Verdict.UNKNOWN: "Run iostat -x -y for longer, or give the volume's and the instance's limits.",
}


@dataclass(frozen=True, slots=True)
class VolumePromise:
    """What a volume is provisioned for; None where unknown."""

    iops: float | None = None
    mib_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class InstancePromise:
    """What an instance type delivers to all its volumes: always (baseline), and at best (30 minutes a day)."""

    baseline_iops: float | None = None
    baseline_mib_per_s: float | None = None
    maximum_iops: float | None = None
    maximum_mib_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExceededTime:
    """How long demand was above a limit during `seconds`, from the NVMe statistics of the volume (seconds)."""

    seconds: float
    volume_iops: float = 0.0
    volume_throughput: float = 0.0
    instance_iops: float = 0.0
    instance_throughput: float = 0.0


@dataclass(frozen=True)
class Limits:
    """What is known beside iostat. Volumes by device name; ANY_DEVICE stands for all others."""

    volumes: Mapping[str, VolumePromise] = field(default_factory=dict)
    instance: InstancePromise | None = None
    exceeded: Mapping[str, ExceededTime] = field(default_factory=dict)

    def volume(self, device: str) -> VolumePromise:
        """The promise of one device; an empty one when nothing is known."""
        return self.volumes.get(device) or self.volumes.get(ANY_DEVICE) or VolumePromise()


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict with its reason, the numbers behind it, and what to do."""

    verdict: Verdict
    reason: str
    evidence: Mapping[str, float]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.verdict]


@dataclass(frozen=True, slots=True)
class ReportDiagnosis:
    """The findings about one device in one report; the first decides."""

    report: int
    load: DeviceLoad
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The first finding's verdict."""
        return self.findings[0].verdict

    @property
    def verdicts(self) -> frozenset[Verdict]:
        """All findings' verdicts."""
        return frozenset(finding.verdict for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive reports with the same verdict. The finding is that of the report with the median wait."""

    first_report: int
    last_report: int
    reports: int
    verdict: Verdict
    also: tuple[Verdict, ...]
    finding: Finding
    evidence: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DeviceDiagnosis:
    """What was found about one device. `headline` is what most of the reports with any load say."""

    device: str
    headline: Verdict
    counts: Mapping[Verdict, int]
    phases: tuple[Phase, ...]
    reports: tuple[ReportDiagnosis, ...]


@dataclass(frozen=True, slots=True)
class PlanComparison:
    """Delivered against promised, one quantity. `verdict`: below, delivered, burst or unknown."""

    quantity: str
    delivered: float
    promised: float | None
    promised_by: str
    share: float | None
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Context:
    """What a device's report is judged with."""

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


_NOTHING_KNOWN = _Context(VolumePromise(), None, None, None, None, None)


def diagnose(reports: Sequence[IostatReport], limits: Limits | None = None) -> tuple[DeviceDiagnosis, ...]:
    """Judge every device in order of first appearance. Reports that are means since boot must be left out before."""
    limits = limits or Limits()
    names = list(dict.fromkeys(load.device for report in reports for load in report.devices))
    return tuple(_diagnose_device(name, reports, limits) for name in names)


def against_plan(
    delivered_iops: float,
    delivered_mib_per_s: float,
    volumes: Sequence[VolumePromise],
    instance: InstancePromise,
) -> tuple[PlanComparison, PlanComparison]:
    """Delivered IOPS and MiB/s against what volumes together and the instance's baseline promise, whichever is less.

    More than the instance's baseline is a burst: it lasts half an hour a day and must not be planned with.
    """
    return (
        _compare("IOPS", delivered_iops, [volume.iops for volume in volumes], instance.baseline_iops),
        _compare(
            "MiB/s",
            delivered_mib_per_s,
            [volume.mib_per_s for volume in volumes],
            instance.baseline_mib_per_s,
        ),
    )


def _compare(
    quantity: str, delivered: float, volumes: Sequence[float | None], baseline: float | None
) -> PlanComparison:
    known = [promise for promise in volumes if promise is not None]
    of_volumes = sum(known) if known and len(known) == len(volumes) else None
    candidates = [
        (promise, by) for promise, by in ((of_volumes, "volumes"), (baseline, "instance baseline")) if promise
    ]
    if not candidates:
        return PlanComparison(quantity, delivered, None, "", None, "unknown", "no promise is known")
    promised, by = min(candidates)
    share = delivered / promised
    text = f"{delivered:,.0f} of {promised:,.0f} {quantity} promised by the {by} ({share:.0%})"
    if by == "instance baseline" and share > 2 - PROMISE_REACHED:
        return PlanComparison(quantity, delivered, promised, by, share, "burst", f"{text}: will not last")
    verdict = "delivered" if share >= PROMISE_REACHED else "below"
    return PlanComparison(quantity, delivered, promised, by, share, verdict, text)


def _diagnose_device(name: str, reports: Sequence[IostatReport], limits: Limits) -> DeviceDiagnosis:
    loads = [(report, load) for report in reports if (load := report.device(name)) is not None]
    steady = [load for _, load in loads if _disturbance(load, _NOTHING_KNOWN) is None]
    flats = [_flat_with(load, steady) for _, load in loads]
    judged = []
    for (report, load), flat in zip(loads, flats, strict=True):
        iops_share, mib_share = _instance_shares(report, limits.instance)
        context = _Context(
            limits.volume(name), limits.exceeded.get(name), iops_share, mib_share, report.cpu, flat
        )
        judged.append(ReportDiagnosis(report.number, load, _judge(load, context)))
    judged = _mark_swings(judged)
    counts = Counter(one.verdict for one in judged)
    loaded = Counter(one.verdict for one in judged if one.verdict is not Verdict.IDLE)
    headline = loaded.most_common(1)[0][0] if loaded else Verdict.IDLE
    return DeviceDiagnosis(name, headline, counts, _phases(judged), tuple(judged))


def _judge(load: DeviceLoad, context: _Context) -> tuple[Finding, ...]:
    """All findings about one device in one report, the deciding one first."""
    if _is_idle(load):
        return (_finding(Verdict.IDLE, load, "no load to speak of"),)
    if load.await_ms is None and load.requests_per_s > 0:
        return (_finding(Verdict.UNKNOWN, load, "the input says nothing about waiting times"),)
    disturbed = _disturbance(load, context)
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
    """Nothing outstanding and next to nothing done. Requests outstanding without completion are a stall, not idle."""
    return load.queue < _IDLE_QUEUE and (load.requests_per_s < _IDLE_RATE)


def _waits(load: DeviceLoad) -> bool:
    return load.queue >= _QUEUED and load.await_ms is not None and load.await_ms >= AWAIT_LIMIT_MS / 2


def _is_saturated(load: DeviceLoad) -> bool:
    return load.queue >= _QUEUED and load.await_ms is not None and load.await_ms >= AWAIT_LIMIT_MS


def _disturbance(load: DeviceLoad, context: _Context) -> Finding | None:
    """Slow without being loaded."""
    wait = load.await_ms
    if wait is None:
        if load.queue < 0.5:
            return None
        return _contention(load, f"{load.queue:.0f} requests outstanding, none completed during the report")
    if load.requests_per_s < _STALLED_RATE and load.queue >= 1 and wait >= SLOW_SERVICE_MS:
        return _contention(
            load,
            f"{load.requests_per_s:.1f} requests completed per s, {load.queue:.0f} outstanding, {wait:,.0f} ms each",
        )
    if load.svctm_ms is not None and load.svctm_ms >= SLOW_SERVICE_MS:
        return _contention(load, f"the service alone took {load.svctm_ms:.0f} ms a request (svctm)")
    if load.queue <= _ALONE and wait >= AWAIT_LIMIT_MS and load.requests_per_s >= 1:
        return _contention(
            load, f"{wait:.0f} ms a request with {load.queue:.1f} outstanding: nothing queues, it is slow"
        )
    if (
        load.queue >= 1
        and wait >= SLOW_SERVICE_MS
        and load.requests_per_s < _HARDLY_ANY_PER_S
        and load.mib_per_s < _HARDLY_ANY_MIB_PER_S
    ):
        return _contention(
            load,
            f"{load.requests_per_s:.0f} requests and {load.mib_per_s:.1f} MiB per s with {load.queue:.0f} outstanding: "
            "less than any volume is sold with",
        )
    share = _promise_share(load, context.promise)
    instance_busy = (
        max(context.instance_iops_share or 0.0, context.instance_mib_share or 0.0) >= PROMISE_REACHED
    )
    if share is not None and share < PROMISE_BROKEN and _is_saturated(load) and not instance_busy:
        return _contention(
            load, f"{share:.0%} of what the volume promises while {load.queue:.0f} requests wait"
        )
    return None


def _limits_reached(load: DeviceLoad, context: _Context) -> tuple[Finding, ...]:
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


def _instance_reached(load: DeviceLoad, context: _Context) -> Finding | None:
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


def _by_size(load: DeviceLoad, context: _Context) -> Finding:
    """What a device that lets requests wait runs out of, by the size of the requests or by the nearer promise."""
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


def _application_limited(load: DeviceLoad, context: _Context) -> Finding:
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


def _contention(load: DeviceLoad, reason: str) -> Finding:
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
    return Finding(verdict, reason, {**_numbers(load), **more})


def _numbers(load: DeviceLoad) -> dict[str, float]:
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


def _instance_shares(
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


def _flat_with(load: DeviceLoad, others: Sequence[DeviceLoad]) -> _Flat | None:
    """Another report with the same kind of requests and another queue, but no higher rate at the longer one."""
    for other in others:
        low, high = sorted((load, other), key=lambda one: one.queue)
        if (
            _same_kind(low, high)
            and low.queue >= 0.7
            and high.queue >= low.queue * _FLAT_QUEUE
            and _is_saturated(high)
            and 1 / _FLAT_RATE < high.requests_per_s / low.requests_per_s < _FLAT_RATE
        ):
            return _Flat(low.queue, low.requests_per_s, high.queue, high.requests_per_s)
    return None


def _same_kind(one: DeviceLoad, other: DeviceLoad) -> bool:
    if not one.request_kib or not other.request_kib or not one.requests_per_s or not other.requests_per_s:
        return False
    low, high = sorted((one.request_kib, other.request_kib))
    return high / low <= _SAME_SIZE and _direction(one) == _direction(other)


def _direction(load: DeviceLoad) -> str:
    if load.reads_per_s is None or load.requests_per_s <= 0:
        return "unknown"
    share = load.reads_per_s / load.requests_per_s
    return "reads" if share >= _MOSTLY else "writes" if share <= 1 - _MOSTLY else "mixed"


def _mark_swings(judged: list[ReportDiagnosis]) -> list[ReportDiagnosis]:
    """At a full queue the rate is the device's own doing: if it swings, the device is disturbed."""
    marked: list[ReportDiagnosis] = []
    for saturated, group in groupby(judged, key=lambda one: (_is_saturated(one.load), _direction(one.load))):
        members = list(group)
        marked += _marked_swing(members) if saturated[0] else members
    return marked


def _marked_swing(members: list[ReportDiagnosis]) -> list[ReportDiagnosis]:
    usual = median(one.load.request_kib or 0.0 for one in members)
    alike = [
        one
        for one in members
        if one.load.request_kib and 1 / _SAME_SIZE <= one.load.request_kib / usual <= _SAME_SIZE
    ]
    if len(alike) < _SWING_REPORTS:
        return members
    rates = sorted(one.load.requests_per_s for one in alike)
    cut = len(rates) // 10
    low, high = rates[cut], rates[-1 - cut]
    if high < low * _SWING or any(one.verdict is Verdict.INSTANCE_LIMITED for one in alike):
        return members
    reason = f"at a full queue the rate swings between {low:,.0f} and {high:,.0f} requests of {usual:.0f} KiB per s"
    return [
        one
        if one.verdict is Verdict.SHARED_STORAGE_CONTENTION
        else replace(one, findings=(_contention(one.load, reason),))
        for one in members
    ]


def _phases(judged: Sequence[ReportDiagnosis]) -> tuple[Phase, ...]:
    phases = []
    for verdict, group in groupby(judged, key=lambda one: one.verdict):
        members = list(group)
        typical = sorted(members, key=lambda one: one.load.await_ms or 0.0)[len(members) // 2]
        also = tuple(
            other
            for other in Verdict
            if other is not verdict and any(other in one.verdicts for one in members)
        )
        phases.append(
            Phase(
                first_report=members[0].report,
                last_report=members[-1].report,
                reports=len(members),
                verdict=verdict,
                also=also,
                finding=typical.findings[0],
                evidence=_summary([one.load for one in members]),
            )
        )
    return tuple(phases)


def _summary(loads: Sequence[DeviceLoad]) -> dict[str, float]:
    """Medians over the reports of a phase, and the longest wait."""
    numbers = [_numbers(load) for load in loads]
    names = list(dict.fromkeys(name for row in numbers for name in row))
    summary = {name: round(median(row[name] for row in numbers if name in row), 2) for name in names}
    waits = [load.await_ms for load in loads if load.await_ms is not None]
    if waits:
        summary["await ms, longest"] = max(waits)
    return summary
