"""The storage judgement reads verify_storage's load test: each volume's limit, and delivered against promised."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from peaker.domain.replicas.data_volumes import DataVolume
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_diagnosis import against_plan, diagnose
from peaker.domain.storage.io_findings import (
    DeviceLoad,
    ExceededTime,
    IostatReport,
    Limits,
    Verdict,
    VolumePromise,
)

_US_PER_S = 1_000_000
_NO_RATE = 1e15
_AT_THE_KNEE = frozenset({Verdict.IOPS_LIMITED.value, Verdict.SHARED_STORAGE_CONTENTION.value})


class _Iostat(BaseModel):
    """The host's summary of iostat -x beside the load, under iostat's own names."""

    device: str
    reads_per_s: float = Field(alias="r/s", gt=0)
    writes_per_s: float = Field(alias="w/s", default=0.0)
    read_kib_per_s: float = Field(alias="rkB/s")
    read_await_ms: float = Field(alias="r_await")
    request_kib: float = Field(alias="rareq-sz")
    queue: float = Field(alias="aqu-sz")
    util_percent: float | None = Field(alias="util", default=None)


class _Nvme(BaseModel):
    """Microseconds for which demand was above a limit, from the volume's NVMe statistics."""

    ebs_volume_performance_exceeded_iops: int = 0
    ebs_volume_performance_exceeded_tp: int = 0
    ec2_instance_ebs_performance_exceeded_iops: int = 0
    ec2_instance_ebs_performance_exceeded_tp: int = 0


class _Load(BaseModel):
    seconds: float = Field(gt=0)
    iostat: _Iostat
    nvme: _Nvme | None = None


class _Volume(BaseModel):
    name: str
    load: _Load


def judge_loads(volumes: object, planned: Sequence[DataVolume]) -> list[dict[str, Any]]:
    """One document per volume of the host's result. A volume without a usable load test is `unknown`, never good."""
    promises = {one.name: VolumePromise(one.iops, one.throughput_mib_per_s) for one in planned}
    return [_judge(volume, promises) for volume in volumes] if isinstance(volumes, list) else []


def together_against_plan(
    volumes: object, planned: Sequence[DataVolume], instance: InstancePromise
) -> list[dict[str, Any]]:
    """Compares the rates of all volumes loaded at once with their sum and the instance's baseline.

    `below` says only that no more was delivered: where nothing limited the load, it was not asked for.
    """
    loads = [_device_load(read.load.iostat) for read in _loads_of(volumes)]
    if not loads or len(loads) < len(planned):
        return []
    promises = [VolumePromise(one.iops, one.throughput_mib_per_s) for one in planned]
    compared = against_plan(
        sum(load.requests_per_s for load in loads), sum(load.mib_per_s for load in loads), promises, instance
    )
    return [
        {
            "quantity": one.quantity,
            "delivered": round(one.delivered, 1),
            "promised": one.promised,
            "promised_by": one.promised_by,
            "verdict": one.verdict,
        }
        for one in compared
    ]


def _loads_of(volumes: object) -> list[_Volume]:
    found = []
    for volume in volumes if isinstance(volumes, list) else []:
        with contextlib.suppress(ValidationError):
            found.append(_Volume.model_validate(volume))
    return found


def _judge(volume: object, promises: dict[str, VolumePromise]) -> dict[str, Any]:
    try:
        read = _Volume.model_validate(volume)
    except ValidationError:
        name = volume.get("name", "?") if isinstance(volume, dict) else "?"
        return {"volume": str(name), "verdict": Verdict.UNKNOWN.value, "reason": "no usable load test"}
    load = _device_load(read.load.iostat)
    promise = promises.get(read.name, VolumePromise())
    exceeded = exceeded_during(read.load.nvme, read.load.seconds)
    limits = Limits({load.device: promise}, exceeded={load.device: exceeded} if exceeded else {})
    (diagnosis,) = diagnose([IostatReport(1, (load,))], limits)
    findings = diagnosis.reports[0].findings
    iops, _ = against_plan(load.requests_per_s, load.mib_per_s, [promise], InstancePromise())
    asked = findings[0].verdict is not Verdict.APPLICATION_LIMITED
    return {
        "volume": read.name,
        "verdict": findings[0].verdict.value,
        "also": [finding.verdict.value for finding in findings[1:]],
        "reason": findings[0].reason,
        "advice": findings[0].advice,
        "iops_delivered": round(iops.delivered, 1),
        "iops_promised": iops.promised,
        "against_plan": iops.verdict if asked or iops.verdict == "delivered" else "not asked for",
    }


def _device_load(seen: _Iostat) -> DeviceLoad:
    return DeviceLoad(
        device=seen.device,
        requests_per_s=seen.reads_per_s + seen.writes_per_s,
        kib_per_s=seen.read_kib_per_s,
        queue=seen.queue,
        await_ms=seen.read_await_ms,
        request_kib=seen.request_kib,
        reads_per_s=seen.reads_per_s,
        writes_per_s=seen.writes_per_s,
        util_percent=seen.util_percent,
    )


def knee_share(limits: object) -> float | None:
    """IOPS delivered over IOPS promised, of the volume that fell shortest at its knee; None when none was at it.

    limits: what judge_loads made of a proof. Only volumes that were asked for more requests than they served
    count: one that stops at its bandwidth says nothing about IOPS.
    """
    shares = [
        float(one["iops_delivered"]) / float(one["iops_promised"])
        for one in (limits if isinstance(limits, list) else ())
        if isinstance(one, dict) and str(one.get("verdict")) in _AT_THE_KNEE and _is_rate(one)
    ]
    return min(shares, default=None)


def _is_rate(limit: dict[str, Any]) -> bool:
    """Tells whether both figures are numbers: other releases may have noted something else under their names."""
    delivered, promised = limit.get("iops_delivered"), limit.get("iops_promised")
    return (
        isinstance(delivered, int | float)
        and isinstance(promised, int | float)
        and 0 < delivered < _NO_RATE
        and 0 < promised < _NO_RATE
    )


def exceeded_during(statistics: object, seconds: float) -> ExceededTime | None:
    """Deltas of a volume's NVMe statistics (microseconds) over `seconds`; None where there are none."""
    if statistics is None:
        return None
    nvme = _Nvme.model_validate(statistics)
    return ExceededTime(
        seconds=seconds,
        volume_iops=nvme.ebs_volume_performance_exceeded_iops / _US_PER_S,
        volume_throughput=nvme.ebs_volume_performance_exceeded_tp / _US_PER_S,
        instance_iops=nvme.ec2_instance_ebs_performance_exceeded_iops / _US_PER_S,
        instance_throughput=nvme.ec2_instance_ebs_performance_exceeded_tp / _US_PER_S,
    )
