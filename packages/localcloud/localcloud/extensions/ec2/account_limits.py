"""What an account may have of EC2 and EBS at a time: RunInstances and CreateVolume are refused above it.

Counted as EC2 and EBS count (EC2 user guide, "Amazon EC2 instance type quotas" and "Capacity Reservations"; EBS user
guide, "Quotas for Amazon EBS"): the default vCPUs of pending and running on-demand instances, and of reserved room that
nobody runs in; the size of all volumes of a type, and the IOPS of io2. A root volume counts and is not refused: EC2
would launch and then terminate its instance (Client.VolumeLimitExceeded).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.extensions.ec2.ebs_records import EbsVolume
from localcloud.extensions.ec2.state import Ec2State, ec2_error
from localcloud.extensions.ec2.volume_spec import VolumeSpec

STANDARD, X, HIGH_MEMORY = "L-1216C47A", "L-7295265B", "L-43DA4232"
STORAGE = {"gp3": "L-7A658B76", "io2": "L-09BD8365"}
IO2_IOPS = "L-8D977E7E"
COUNTED = ("pending", "running")
GIB_PER_TIB = 1024
# Their letters begin like standard families, and each has a quota of its own, which nobody here reaches.
_OTHERS = ("hpc", "inf", "trn", "dl", "mac")


def quota_of(instance_type: str) -> str | None:
    """The code of the quota that its vCPUs count in; None for one that is not enforced here."""
    family = re.split(r"[^a-z]", instance_type, maxsplit=1)[0]
    if family in _OTHERS:
        return None
    return STANDARD if family[:1] in set("acdhimrtz") else {"x": X, "u": HIGH_MEMORY}.get(family[:1])


def vcpus_of(instance_type: str) -> int:
    """Whatever the CPU options of an instance say: EC2 counts what the type has by default."""
    return int(INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def check_vcpus(
    state: Ec2State, instance_type: str, count: int, code: str, empty_places: Iterable[str]
) -> None:
    """Raises `code`, EC2's word for the call that is made, where so many more pass the account's quota.

    `empty_places` are the types of reserved room that nobody runs in.
    """
    quota = quota_of(instance_type)
    limit = None if quota is None else state.cloud.quotas.value("ec2", quota)
    if limit is None:
        return
    counted = [one.instance_type for one in state.backend.all_instances() if _counts(one)]
    counted += empty_places
    used = sum(vcpus_of(kind) for kind in counted if quota_of(kind) == quota)
    if used + count * vcpus_of(instance_type) > limit:
        raise ec2_error(
            code,
            f"{count} more of {instance_type} would take more vCPUs than the current limit of {limit:g} allows for its "
            f"family: {used} are in use.",
        )


def check_storage(state: Ec2State, spec: VolumeSpec) -> None:
    """Raises what CreateVolume raises where the volume passes the account's storage or IOPS."""
    there = [one for one in state.backend.volumes.values() if isinstance(one, EbsVolume)]
    same = [one.spec for one in there if one.spec.volume_type == spec.volume_type]
    code = STORAGE.get(spec.volume_type)
    limit = None if code is None else state.cloud.quotas.value("ebs", code)
    used = _gib(same) / GIB_PER_TIB
    if limit is not None and used + spec.size_gib / GIB_PER_TIB > limit:
        raise ec2_error(
            "VolumeLimitExceeded",
            f"{spec.size_gib} GiB more pass the maximum of {limit:g} TiB of {spec.volume_type}: {used:.3f} TiB are "
            "there.",
        )
    most = state.cloud.quotas.value("ebs", IO2_IOPS) if spec.volume_type == "io2" else None
    iops = sum(one.iops or 0 for one in same)
    if most is not None and iops + (spec.iops or 0) > most:
        raise ec2_error(
            "MaxIOPSLimitExceeded",
            f"{spec.iops} IOPS more pass the maximum of {most:g} of io2: {iops} are there.",
        )


def _gib(volumes: Iterable[VolumeSpec]) -> int:
    return sum(one.size_gib for one in volumes)


def _counts(instance: Any) -> bool:
    """What runs in reserved room counts as that room does: once."""
    return instance.state in COUNTED and instance.lifecycle is None
