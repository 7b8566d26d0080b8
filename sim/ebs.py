"""Volumes and snapshots: created, attached, copied and deleted in their own time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Snapshot, Volume, VolumeSpec

from peaker_contract.errors import (
    AwsCallRejected,
    ResourceNotFound,
    UndoInProgress,
    VolumeFailed,
    VolumeVanished,
)
from peaker_contract.names import CLUSTER_TAG, OWNER_TAG, RUN_TAG, VOLUME_TAG
from sim.account import (
    LONG_AGO,
    OTHERS_SHOWN_WITHIN,
    Account,
    Record,
    attachment,
    attachment_at,
    change,
    stale,
    state_at,
    volume_state,
)
from sim.workflows.virtual_time import VirtualTime

GIB = 1024**3

_FOUND_BEFORE = OTHERS_SHOWN_WITHIN / 2


class HostileStorage:
    """Port Storage."""

    def __init__(self, account: Account, time: VirtualTime, chance: random.Random, environment: str) -> None:
        self._account = account
        self._time = time
        self._random = chance
        self._environment = environment

    def volumes_of_instance(self, instance_id: str) -> list[Volume]:
        return [one for one in self._volumes(lambda _: True) if one.instance_id == instance_id]

    def volumes_of_run(self, run_id: str) -> list[Volume]:
        return self._volumes(lambda tags: self._is_of(tags, run_id))

    def volumes_of_environment(self, cluster: str | None = None) -> list[Volume]:
        return self._volumes(lambda tags: self._is_owned(tags, cluster))

    def _is_owned(self, tags: Mapping[str, str], cluster: str | None) -> bool:
        return tags.get(OWNER_TAG) == self._environment and cluster in (None, tags.get(CLUSTER_TAG))

    def volumes_of_type(self, volume_type: str) -> Sequence[Volume] | Unknown:
        return [one for one in self._volumes(lambda _: True) if one.volume_type == volume_type]

    def snapshots_of_run(self, run_id: str) -> list[Snapshot]:
        return self._snapshots(lambda one: self._is_of(one["tags"], run_id))

    def snapshots_of_environment(self, cluster: str | None = None) -> list[Snapshot]:
        return self._snapshots(lambda one: self._is_owned(one["tags"], cluster))

    def snapshots_of_volumes(self, volume_ids: Sequence[str]) -> list[Snapshot]:
        return self._snapshots(lambda one: one["volume"] in volume_ids)

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        return [self._snapshot(self._snapshot_made(one, tags), self._time.seconds) for one in volume_ids]

    def name_snapshot(self, snapshot_id: str, volume_name: str) -> None:
        record, now = self._account.snapshots.get(snapshot_id), self._time.seconds
        # A call by id is not bound to find what lists do not show yet; here every second one does.
        if record is None or state_at(record, now) == "deleted" or now < record["shown"] - _FOUND_BEFORE:
            raise ResourceNotFound(f"ec2:CreateTags: InvalidSnapshot.NotFound: {snapshot_id}")
        record["tags"][VOLUME_TAG] = volume_name

    def delete_snapshot(self, snapshot_id: str) -> None:
        record = self._account.snapshots.get(snapshot_id)
        if record is not None and state_at(record, self._time.seconds) != "deleted":
            change(record, self._time.seconds, (0, "deleted"))

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        now, asked = self._time.seconds, repr(spec)
        if client_token in self._account.tokens:
            before, volume_id = self._account.tokens[client_token]
            if before != asked:
                raise AwsCallRejected("ec2:CreateVolume: IdempotentParameterMismatch")
            if state_at(self._account.volumes[volume_id], now) == "deleted":
                raise VolumeVanished(
                    "ec2:CreateVolume: IdempotentParameterMismatch: already deleted; the KMS key"
                )
            return self._volume(self._account.volumes[volume_id], now)
        if spec.snapshot_id is not None:
            source = self._account.snapshots.get(spec.snapshot_id)
            if source is None or state_at(source, now) != "completed":
                raise AwsCallRejected(f"ec2:CreateVolume: IncorrectState: snapshot {spec.snapshot_id}")
        volume_id = self._account.next_id("vol")
        self._account.tokens[client_token] = (asked, volume_id)
        record = self.made(volume_id, spec.zone, spec.size_gib, spec.tags, spec.snapshot_id)
        record["rate"] = spec.initialization_rate_mib_per_s
        return self._volume(record, now)

    def made(
        self, volume_id: str, zone: str, size_gib: int, tags: Mapping[str, str], snapshot_id: str | None
    ) -> Record:
        now = self._time.seconds
        record: Record = {
            "id": volume_id,
            "zone": zone,
            "size": size_gib,
            "type": "gp3",
            "tags": dict(tags),
            "snapshot": snapshot_id,
            "shown": now + self._random.uniform(0, OTHERS_SHOWN_WITHIN),
            "history": [(now, "creating"), (now + self._random.uniform(1, 15), "available")],
            "attachments": [],
        }
        self._account.volumes[volume_id] = record
        return record

    def add(self, volume: Volume) -> Volume:
        """Put a volume there as it is, long since."""
        record = self.made(volume.volume_id, volume.zone, volume.size_gib, volume.tags, None)
        record |= {
            "shown": LONG_AGO,
            "type": volume.volume_type,
            "iops": volume.iops,
            "throughput": volume.throughput_mib_per_s,
            "rate": volume.initialization_rate_mib_per_s,
            "key": volume.kms_key_id,
            "history": [(LONG_AGO, "available" if volume.instance_id else volume.state)],
        }
        if volume.instance_id is not None:
            record["attachments"] = [attachment(volume.instance_id, volume.device, LONG_AGO, LONG_AGO)]
        return volume

    @property
    def volumes(self) -> dict[str, Volume]:
        """All that are there now, those too that lists do not show yet."""
        now, found = self._time.seconds, self._account.volumes
        return {key: self._volume(one, now) for key, one in found.items() if state_at(one, now) != "deleted"}

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        """The same of snapshots."""
        now, found = self._time.seconds, self._account.snapshots
        return {
            key: self._snapshot(one, now) for key, one in found.items() if state_at(one, now) != "deleted"
        }

    def add_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Put a snapshot there as it is."""
        started = self._time.seconds_of(snapshot.started_at) if snapshot.started_at else LONG_AGO
        self._account.snapshots[snapshot.snapshot_id] = {
            "id": snapshot.snapshot_id,
            "volume": snapshot.source_volume_id,
            "size": 4,
            "full_size": snapshot.full_size_bytes,
            "tags": dict(snapshot.tags),
            "started": started,
            "shown": LONG_AGO,
            "history": [(LONG_AGO, snapshot.state)],
        }
        return snapshot

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        now = self._time.seconds
        volume, instance = self._account.volumes.get(volume_id), self._account.instances.get(instance_id)
        if volume is None or instance is None or state_at(volume, now) != "available":
            raise AwsCallRejected(f"ec2:AttachVolume: IncorrectState: {volume_id} at {instance_id}")
        held = attachment_at(volume, now)
        if held is not None:
            if held["instance"] != instance_id:
                raise VolumeFailed(f"ec2:AttachVolume: VolumeInUse: {volume_id} is at {held['instance']}")
            return
        if volume["zone"] != instance["zone"]:
            raise VolumeFailed(f"ec2:AttachVolume: InvalidVolume.ZoneMismatch: {volume_id}")
        if state_at(instance, now) not in ("running", "stopped"):
            raise AwsCallRejected(f"ec2:AttachVolume: IncorrectState: {instance_id}")
        attached = now + self._random.uniform(2, 25)
        volume["attachments"].append(attachment(instance_id, device, now, attached))

    def delete_volume(self, volume_id: str) -> None:
        now = self._time.seconds
        record = self._account.volumes.get(volume_id)
        if record is None or state_at(record, now) in ("deleting", "deleted"):
            return
        if attachment_at(record, now) is not None:
            raise UndoInProgress(f"{volume_id} is still attached")
        change(record, now, (0, "deleting"), (self._random.uniform(1, 20), "deleted"))

    def _snapshot_made(self, volume_id: str, tags: Mapping[str, str]) -> Record:
        now = self._time.seconds
        snapshot_id = self._account.next_id("snap")
        record: Record = {
            "id": snapshot_id,
            "volume": volume_id,
            "size": self._account.volumes[volume_id]["size"],
            "tags": dict(tags),
            "started": now,
            "shown": now + self._random.uniform(0, OTHERS_SHOWN_WITHIN),
            "history": [(now, "pending"), (now + self._random.uniform(40, 400), "completed")],
        }
        self._account.snapshots[snapshot_id] = record
        return record

    def _is_of(self, tags: Mapping[str, str], run_id: str) -> bool:
        return tags.get(RUN_TAG) == run_id and tags.get(OWNER_TAG) == self._environment

    def _volumes(self, wanted: Callable[[Mapping[str, str]], bool]) -> list[Volume]:
        now = self._time.seconds
        then = stale(self._random, now)
        found = [
            self._volume(record, then)
            for record in self._account.volumes.values()
            if wanted(record["tags"]) and record["shown"] <= now
        ]
        return [one for one in found if one.state != "deleted"]

    def _volume(self, record: Record, second: float) -> Volume:
        held = attachment_at(record, second)
        return Volume(
            volume_id=record["id"],
            state=volume_state(record, second),
            size_gib=record["size"],
            volume_type=record["type"],
            zone=record["zone"],
            iops=record.get("iops", 3000),
            throughput_mib_per_s=record.get("throughput", 125),
            kms_key_id=record.get("key"),
            instance_id=held["instance"] if held else None,
            device=held["device"] if held else None,
            attachment_state=None
            if held is None
            else ("attached" if second >= held["attached"] else "attaching"),
            initialization_rate_mib_per_s=record.get("rate"),
            tags=dict(record["tags"]),
        )

    def _snapshots(self, wanted: Callable[[Record], bool]) -> list[Snapshot]:
        now = self._time.seconds
        then = stale(self._random, now)
        records = [one for one in self._account.snapshots.values() if wanted(one) and one["shown"] <= now]
        return [self._snapshot(one, then) for one in records if state_at(one, then) != "deleted"]

    def _snapshot(self, record: Record, second: float) -> Snapshot:
        state = state_at(record, second)
        done = state == "completed"
        return Snapshot(
            snapshot_id=record["id"],
            state=state,
            source_volume_id=record["volume"],
            progress_percent=100.0 if done else 40.0,
            full_size_bytes=record.get("full_size", record["size"] * GIB // 2) if done else None,
            started_at=self._time.datetime_of(record["started"]),
            tags=dict(record["tags"]),
        )
