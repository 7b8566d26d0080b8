"""The data volumes of a replica: as the settings or a plan name them, and as they stand. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peaker.domain.decoding import Frozen
from peaker.domain.replicas.fleet import Replica
from peaker.domain.replicas.inventory import Volume
from peaker_contract.cluster import ClusterSettings
from peaker_contract.storage_settings import VolumeSettings


class PlannedVolume(Frozen):
    """One volume to make. The size is the donor's; the settings give the rest."""

    name: str
    device: str
    mount_point: str
    filesystem: str
    size_gib: int
    volume_type: str
    iops: int
    throughput_mib_per_s: int
    initialization_rate_mib_per_s: int | None
    layout: str = "single"


DataVolume = VolumeSettings | PlannedVolume


def data_volumes(replica: Replica, wanted: Sequence[DataVolume]) -> dict[str, Volume]:
    """The replica's data volumes by the name in settings or plan: by tag, or else by device."""
    found: dict[str, Volume] = {}
    for one in wanted:
        tagged = [volume for volume in replica.volumes if volume.name == one.name]
        placed = [volume for volume in replica.volumes if volume.device == one.device]
        for volume in (*tagged, *placed)[:1]:
            found[one.name] = volume
    return found


def planned_volumes(
    like: Mapping[str, Volume], settings: ClusterSettings, rate_mib_per_s: int | None
) -> tuple[PlannedVolume, ...]:
    """The volumes of the settings, as large as those of the same name; one without its like is left out."""
    return tuple(
        PlannedVolume(
            **dict(one), size_gib=like[one.name].size_gib, initialization_rate_mib_per_s=rate_mib_per_s
        )
        for one in settings.volumes
        if one.name in like
    )
