"""A device load is iostat's report about one device, in the same units whatever the version that printed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
    read_await_ms: float | None = None
    write_await_ms: float | None = None
    merged_writes_per_s: float | None = None
    svctm_ms: float | None = None
    util_percent: float | None = None
    line: int | None = None

    @property
    def mib_per_s(self) -> float:
        """Bytes read and written, in MiB/s."""
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
        """The row of one device; None when the report has none."""
        return next((load for load in self.devices if load.device == name), None)


def since_boot_left_out(reports: Sequence[IostatReport]) -> tuple[IostatReport, ...]:
    """Without the first report of each run that has more than one: the mean since boot is no measurement."""
    kept = []
    for index, report in enumerate(reports):
        followed = index + 1 < len(reports) and not reports[index + 1].first_of_run
        if not (report.first_of_run and followed):
            kept.append(report)
    return tuple(kept)
