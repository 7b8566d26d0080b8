"""Findings about a device: verdicts with their advice, promises to compare with, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from peaker.domain.replicas.inventory import InstancePromise


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """Means over one report. None is "not in the input"; KiB are 1024 bytes.

    `requests_per_s` and `kib_per_s` are of reads and writes together. The waiting times and the request size are
    None when nothing was completed, because there is no mean of nothing. `svctm_ms` is there only where the input
    has it: sysstat no longer prints it and it cannot be computed for a device that works on several requests.
    """

    device: str
    requests_per_s: float
    kib_per_s: float
    queue: float
    await_ms: float | None
    request_kib: float | None
    reads_per_s: float | None = None
    writes_per_s: float | None = None
    merged_writes_per_s: float | None = None
    svctm_ms: float | None = None
    util_percent: float | None = None

    @property
    def mib_per_s(self) -> float:
        return self.kib_per_s / 1024


@dataclass(frozen=True, slots=True)
class CpuShares:
    """The processors' shares of time not worked during one report, in percent."""

    iowait: float
    idle: float


@dataclass(frozen=True, slots=True)
class IostatReport:
    """One report of iostat. The first report of a run without -y is the mean since boot: `first_of_run`."""

    number: int
    devices: tuple[DeviceLoad, ...]
    cpu: CpuShares | None = None
    first_of_run: bool = False

    def device(self, name: str) -> DeviceLoad | None:
        return next((load for load in self.devices if load.device == name), None)


def since_boot_left_out(reports: Sequence[IostatReport]) -> tuple[IostatReport, ...]:
    """Without the first report of each run that has more than one: the mean since boot is no measurement."""
    kept = []
    for index, report in enumerate(reports):
        followed = index + 1 < len(reports) and not reports[index + 1].first_of_run
        if not (report.first_of_run and followed):
            kept.append(report)
    return tuple(kept)


ANY_DEVICE = "*"


class Verdict(StrEnum):
    """A verdict names the device's limit."""

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
    """A volume's promise is its provisioned performance; None where unknown."""

    iops: float | None = None
    mib_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExceededTime:
    """The seconds for which demand was above a limit during `seconds`, from the volume's NVMe statistics."""

    seconds: float
    volume_iops: float = 0.0
    volume_throughput: float = 0.0
    instance_iops: float = 0.0
    instance_throughput: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Limits are known beside iostat. Volumes by device name; ANY_DEVICE stands for all others."""

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
        return ADVICE[self.verdict]


@dataclass(frozen=True, slots=True)
class ReportDiagnosis:
    """The findings about one device in one report; the first decides."""

    report: int
    load: DeviceLoad
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        return self.findings[0].verdict

    @property
    def verdicts(self) -> frozenset[Verdict]:
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
    """A diagnosis holds one device's findings. `headline` is the verdict of most reports with any load."""

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
