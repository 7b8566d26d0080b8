"""What a volume may be: EBS's ranges and ratios, checked as CreateVolume and RunInstances check them.

Figures: botocore 1.44.5 (ec2 CreateVolume) and the EBS user guide's pages on volume types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.dataplane import VolumeLimits
from localcloud.extensions.ec2.state import ec2_error

INITIALIZATION_RATES_MIB_PER_S = (100, 300)


@dataclass(frozen=True)
class _VolumeType:
    """Ranges of one type: GiB, IOPS (None: not settable), MiB/s (None: not settable), and their ratios."""

    size_gib: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None
    iops_required: bool = False


VOLUME_TYPES: Mapping[str, _VolumeType] = {
    "gp2": _VolumeType((1, 16_384)),
    "gp3": _VolumeType((1, 65_536), (3_000, 80_000), 500, (125, 2_000)),
    "io2": _VolumeType((4, 65_536), (100, 256_000), 1_000, iops_required=True),
}
GP3_BASE_IOPS = 3_000
GP3_BASE_THROUGHPUT_MIB_PER_S = 125
GP3_MIB_PER_S_PER_IOPS = 0.25


@dataclass(frozen=True)
class VolumeSpec:
    """A volume that EBS would accept."""

    size_gib: int
    volume_type: str
    iops: int | None
    throughput_mib_per_s: int | None
    initialization_rate_mib_per_s: int | None

    def limits(self) -> VolumeLimits:
        """What the data plane is to hold the volume to."""
        iops, throughput = self._performance()
        return VolumeLimits(
            iops=iops,
            throughput_mib_per_s=throughput,
            initialization_rate_mib_per_s=self.initialization_rate_mib_per_s,
        )

    def _performance(self) -> tuple[int, int]:
        if self.volume_type == "gp3":
            return self.iops or GP3_BASE_IOPS, self.throughput_mib_per_s or GP3_BASE_THROUGHPUT_MIB_PER_S
        if self.volume_type == "io2":
            return self.iops or 100, 4_000
        # gp2: below 1,000 GiB it bursts to 3,000 IOPS.
        return min(16_000, max(3_000, 3 * self.size_gib)), 128 if self.size_gib <= 170 else 250


def volume_spec(request: Mapping[str, Any], snapshot_gib: int | None) -> VolumeSpec:
    """Check a CreateVolume request (or the Ebs part of a block device mapping, with VolumeSize as Size).

    snapshot_gib is the size of the volume that the snapshot was taken of, None without a snapshot.
    """
    name = request.get("VolumeType") or "gp2"  # the API's own default
    if name not in VOLUME_TYPES:
        raise _invalid(name, "VolumeType", f"it must be one of {', '.join(VOLUME_TYPES)}")
    size = _checked_size(name, request.get("Size"), snapshot_gib)
    iops = _checked_iops(name, size, request.get("Iops"))
    throughput = _checked_throughput(name, iops, request.get("Throughput"))
    rate = _checked_rate(request.get("VolumeInitializationRate"), snapshot_gib)
    return VolumeSpec(size, name, iops, throughput, rate)


def _checked_size(name: str, size: int | None, snapshot_gib: int | None) -> int:
    if size is None and snapshot_gib is None:
        raise ec2_error("MissingParameter", "The request must contain the parameter size or snapshotId")
    if size is None:
        size = snapshot_gib or 0
    if snapshot_gib is not None and size < snapshot_gib:
        raise _invalid(size, "Size", f"it is smaller than the snapshot, expect size >= {snapshot_gib}GiB")
    low, high = VOLUME_TYPES[name].size_gib
    if not low <= size <= high:
        raise _invalid(size, "Size", f"a {name} volume has {low} to {high} GiB")
    return size


def _checked_iops(name: str, size: int, iops: int | None) -> int | None:
    kind = VOLUME_TYPES[name]
    if iops is None:
        if kind.iops_required:
            raise ec2_error("MissingParameter", f"The parameter iops must be specified for {name} volumes.")
        return GP3_BASE_IOPS if name == "gp3" else min(16_000, max(100, 3 * size))
    if kind.iops is None:
        raise ec2_error(
            "InvalidParameterCombination", f"The parameter iops is not supported for {name} volumes."
        )
    low, high = kind.iops
    if not low <= iops <= high:
        raise _invalid(iops, "Iops", f"{name} volumes have {low} to {high} IOPS")
    if iops > max(low, kind.iops_per_gib * size):
        raise _invalid(iops, "Iops", f"the maximum ratio is {kind.iops_per_gib} IOPS per GiB")
    return iops


def _checked_throughput(name: str, iops: int | None, throughput: int | None) -> int | None:
    limits = VOLUME_TYPES[name].throughput
    if throughput is None:
        return GP3_BASE_THROUGHPUT_MIB_PER_S if limits else None
    if limits is None:
        raise ec2_error(
            "InvalidParameterCombination", f"The parameter throughput is not supported for {name} volumes."
        )
    low, high = limits
    if not low <= throughput <= high:
        raise _invalid(throughput, "Throughput", f"{name} volumes have {low} to {high} MiB/s")
    if throughput > GP3_MIB_PER_S_PER_IOPS * (iops or 0):
        raise _invalid(throughput, "Throughput", f"the maximum is {GP3_MIB_PER_S_PER_IOPS} MiB/s per IOPS")
    return throughput


def _checked_rate(rate: int | None, snapshot_gib: int | None) -> int | None:
    if rate is None:
        return None
    if snapshot_gib is None:
        raise ec2_error(
            "InvalidParameterCombination",
            "The parameter VolumeInitializationRate is supported only for volumes created from snapshots.",
        )
    low, high = INITIALIZATION_RATES_MIB_PER_S
    if not low <= rate <= high:
        raise _invalid(rate, "VolumeInitializationRate", f"it must be {low} to {high} MiB/s")
    return rate


def _invalid(value: object, parameter: str, reason: str) -> Exception:
    message = f"Value ({value}) for parameter {parameter} is invalid: {reason}."
    return ec2_error("InvalidParameterValue", message)
