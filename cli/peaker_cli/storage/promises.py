"""Promises are the limits of volumes and an instance, as given on the command line: IOPS:MIB_PER_S."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.storage.io_findings import ANY_DEVICE, VolumePromise


def parse_volumes(words: Sequence[str]) -> dict[str, VolumePromise]:
    """`3000:125` for every device, `nvme1n1=3000:125` for one; either number may be left out."""
    promises = {}
    for word in words:
        device, _, numbers = word.rpartition("=")
        iops, amount = _pair(word, numbers, "--volume")
        promises[device or ANY_DEVICE] = VolumePromise(iops, amount)
    return promises


def parse_instance(baseline: str | None) -> InstancePromise | None:
    """Returns the instance type's EBS baseline; None when nothing was given."""
    if baseline is None:
        return None
    iops, amount = _pair(baseline, baseline, "--instance")
    return InstancePromise(baseline_iops=iops, baseline_mib_per_s=amount)


def _pair(word: str, numbers: str, option: str) -> tuple[float | None, float | None]:
    iops, _, amount = numbers.partition(":")
    try:
        pair = tuple(float(text) if text else None for text in (iops, amount))
    except ValueError:
        pair = (None, None)
    if pair == (None, None) or any(value is not None and value <= 0 for value in pair):
        raise typer.BadParameter(f"{word[:60]!r} is not IOPS:MIB_PER_S, e.g. 3000:125", param_hint=option)
    return pair[0], pair[1]
