"""EC2, EBS and the read endpoint of the hostile cloud, with the latencies and rates of `laws` and `truth`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Snapshot, Volume, VolumeSpec
from peaker.domain.storage.block_list import BLOCK_BYTES, BLOCKS_PER_PAGE, BlockRuns
from peaker.domain.storage.io_findings import InstancePromise

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import Account, Record, change, state_at
from bench.faults.world.ebs import HostileStorage
from bench.faults.world.ec2 import HostileCompute
from bench.faults.world.endpoint import HostileEndpoint
from bench.outcomes import laws
from bench.outcomes.truth import MIB, TYPES, Truth
from peaker_contract.cluster import ClusterSettings
from peaker_contract.tags import VOLUME_TAG


class LawfulStorage(HostileStorage):
    """Snapshots copy what changed, each volume at its own rate; a new volume fills at a rate of its own."""

    def __init__(
        self, account: Account, time: VirtualTime, chance: random.Random, environment: str, truth: Truth
    ) -> None:
        super().__init__(account, time, chance, environment)
        self._truth = truth
        self._overhead = 0.0

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        self._overhead = self._truth.snapshot_overhead * laws.spread(self._random, laws.SNAPSHOT_SIGMA)
        return super().create_snapshots(instance_id, volume_ids, tags)

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        made = super().create_volume(spec, client_token)
        record = self._account.volumes[made.volume_id]
        if "fills_at" not in record:
            paid = spec.initialization_rate_mib_per_s
            own = (
                laws.default_rate(self._random, self._truth.hydration_mib_per_s)
                if paid is None
                else laws.paid_rate(self._random, paid)
            )
            record["fills_at"] = min(own, float(spec.throughput_mib_per_s))
            available = laws.VOLUME_MADE.draw(self._random)
            record["history"] = [
                (self._time.seconds, "creating"),
                (self._time.seconds + available, "available"),
            ]
        return made

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        super().attach(volume_id, instance_id, device)
        attachment = self._account.volumes[volume_id]["attachments"][-1]
        if "drawn" not in attachment:
            later = laws.VOLUME_ATTACHED.draw(self._random)
            attachment.update(drawn=True, attached=self._time.seconds + later)

    def _snapshot_made(self, volume_id: str, tags: Mapping[str, str]) -> Record:
        record, now = super()._snapshot_made(volume_id, tags), self._time.seconds
        name = self._account.volumes[volume_id]["tags"][VOLUME_TAG]
        before = self._newest_before(record)
        copied = (
            self._truth.held_bytes(name, now)
            if before is None
            else self._truth.changed_bytes(name, before["started"], now)
        )
        rate = self._truth.snapshot_mib_per_s * laws.spread(self._random, laws.SNAPSHOT_SIGMA)
        record["held"] = self._truth.held_bytes(name, now)
        record["history"] = [(now, "pending"), (now + self._overhead + copied / (rate * MIB), "completed")]
        return record

    def _newest_before(self, record: Record) -> Record | None:
        found = [
            one
            for one in self._account.snapshots.values()
            if one is not record
            and one["volume"] == record["volume"]
            and state_at(one, self._time.seconds) == "completed"
        ]
        return max(found, key=lambda one: one["started"]) if found else None

    def _snapshot(self, record: Record, second: float) -> Snapshot:
        told = super()._snapshot(record, second)
        size = int(record["held"]) if told.state == "completed" else None
        return replace(told, full_size_bytes=size)


class LawfulBlocks:
    """Port SnapshotBlocks: as many as the snapshots hold, or differ in."""

    def __init__(self, account: Account, truth: Truth) -> None:
        self._account = account
        self._truth = truth

    def held(self, snapshot_id: str, pages_at_most: int) -> BlockRuns | Unknown:
        blocks = int(self._account.snapshots[snapshot_id]["held"] / BLOCK_BYTES)
        if blocks > pages_at_most * BLOCKS_PER_PAGE:
            return Unknown(f"{snapshot_id} has more than {pages_at_most} pages of blocks")
        return BlockRuns(((0, blocks),), blocks)

    def changed(self, first_id: str, second_id: str, pages_at_most: int) -> int | Unknown:
        first, second = (self._account.snapshots[one] for one in (first_id, second_id))
        name = self._account.volumes[second["volume"]]["tags"][VOLUME_TAG]
        blocks = int(self._truth.changed_bytes(name, first["started"], second["started"]) / BLOCK_BYTES)
        if blocks > pages_at_most * BLOCKS_PER_PAGE:
            return Unknown(f"more than {pages_at_most} pages of changed blocks")
        return blocks


class LawfulCompute(HostileCompute):
    """Instances that boot as long as their image takes."""

    def __init__(
        self,
        account: Account,
        time: VirtualTime,
        chance: random.Random,
        zones: Mapping[str, str],
        environment: str,
        truth: Truth,
    ) -> None:
        super().__init__(account, time, chance, zones, environment)
        self._truth = truth

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        return TYPES[instance_type]

    def stop(self, instance_id: str) -> None:
        super().stop(instance_id)
        record, now = self._account.instances[instance_id], self._time.seconds
        if record["history"][-1][0] > now:
            change(record, now, (0, "stopping"), (laws.INSTANCE_STOPS.draw(self._random), "stopped"))

    def _boots(self, record: Record) -> None:
        now = self._time.seconds
        running = laws.INSTANCE_RUNS.draw(self._random)
        answers = running + laws.AGENT_ANSWERS.draw(self._random) * self._truth.boot_factor
        record["launched"] = now
        change(record, now, (0, "pending"), (running, "running"))
        self._account.happened(record["id"], now + answers, "up", True)


class LawfulEndpoint(HostileEndpoint):
    """A read endpoint that finds a newcomer healthy as late as AWS says."""

    def _enter(self, settings: ClusterSettings, name: str, instance_id: str) -> None:
        group = self._group(settings.name, name)
        before = group.get(instance_id)
        super()._enter(settings, name, instance_id)
        if group[instance_id] is not before:
            law = laws.NLB_ACTS if settings.read_endpoint.kind == "nlb" else laws.DNS_CHECKED
            group[instance_id]["healthy"] = self._time.seconds + law.draw(self._random)
