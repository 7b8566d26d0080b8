"""Volumes, their attachments and snapshots as moto's records, with what EBS adds."""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import Any

from moto.ec2.models.elastic_block_store import Snapshot, Volume, VolumeAttachment
from moto.ec2.utils import random_volume_id

from localcloud.extensions.ec2.state import Ec2State
from localcloud.extensions.ec2.volume_spec import VolumeSpec

MIB = 1024**2
NO_SOURCE_VOLUME = "vol-ffffffff"  # as AWS shows for a copied snapshot


class EbsVolume(Volume):
    """A volume with the states that moto's lacks. `in_store` is False for a root volume."""

    attachment: EbsAttachment | None

    def __init__(self, state: Ec2State, zone_name: str, spec: VolumeSpec, snapshot_id: str | None) -> None:
        super().__init__(
            state.backend,
            random_volume_id(),
            spec.size_gib,
            state.backend.get_zone_by_name(zone_name),
            snapshot_id,
            volume_type=spec.volume_type,
            iops=spec.iops,
            throughput=spec.throughput_mib_per_s,
        )
        self.spec = spec
        self.kms_key_id: str | None = None
        self.in_store = True
        self.volume_initialization_rate = spec.initialization_rate_mib_per_s
        self.create_time = state.cloud.clock.now()
        self.ready_at = time.monotonic() + state.transition_seconds

    @property
    def status(self) -> str:
        if self.attachment is not None:
            return "in-use"
        return "available" if time.monotonic() >= self.ready_at else "creating"


class EbsAttachment(VolumeAttachment):
    """attaching until the data plane has plugged it and a short while after; busy when a detach failed."""

    volume: EbsVolume

    def __init__(self, volume: EbsVolume, instance: Any, device: str, attach_time: datetime) -> None:
        super().__init__(volume, instance, device, "attaching")
        self.attach_time = attach_time
        self.settled_at = math.inf

    @property
    def delete_on_termination(self) -> bool:
        mapping = self.instance.block_device_mapping.get(self.device)
        return bool(mapping is not None and mapping.delete_on_termination)


class EbsSnapshot(Snapshot):
    """A snapshot that is pending for a while, and until what it copies is copied."""

    def __init__(self, state: Ec2State, snapshot_id: str, volume: Any, description: str) -> None:
        super().__init__(state.backend, snapshot_id, volume, description)
        self.start_time = state.cloud.clock.now()
        self.kms_key_id: str | None = getattr(volume, "kms_key_id", None)
        self.full_snapshot_size_in_bytes: int | None = None
        self.completion_time: datetime | None = None
        self._clock = state.cloud.clock
        self._started_at = time.monotonic()
        self._pending_seconds = state.cloud.settings.snapshot_seconds
        self._started_epoch = self._clock.epoch()
        self._copy_seconds = 0.0  # of the cloud's

    def copies(self, stored_bytes: int, rate_mib_per_s: float) -> None:
        """It is pending until so many bytes are copied."""
        self._copy_seconds = stored_bytes / (rate_mib_per_s * MIB) if rate_mib_per_s > 0 else 0.0

    @property
    def _done(self) -> float:
        waited = time.monotonic() - self._started_at
        copied = self._clock.epoch() - self._started_epoch
        shares = [(waited, self._pending_seconds), (copied, self._copy_seconds)]
        return min(min(1.0, passed / whole) if whole > 0 else 1.0 for passed, whole in shares)

    @property
    def status(self) -> str:
        if self.completion_time is None and self._done < 1.0:
            return "pending"
        if self.completion_time is None:
            self.completion_time = self._clock.now()
        return "completed"

    @status.setter
    def status(self, value: str) -> None:
        """moto's constructor sets one; ours follows the time."""

    @property
    def progress(self) -> str:
        if self.status == "completed":
            return "100%"
        return f"{int(100 * self._done)}%"
