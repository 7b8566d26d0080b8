"""Instances: shown late, started and stopped in their own time; the volumes go with them as AWS says."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import CapacityReservation, Instance, InstancePromise, InstanceSpec

from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, ResourceNotFound
from peaker_contract.names import CLUSTER_TAG, OWNER_TAG, RUN_TAG, VOLUME_TAG
from sim.account import (
    INSTANCE_SHOWN_WITHIN,
    LONG_AGO,
    OTHERS_SHOWN_WITHIN,
    TERMINATED_SHOWN_FOR,
    Account,
    Record,
    attachment,
    attachment_at,
    change,
    stale,
    state_at,
)
from sim.workflows.virtual_time import VirtualTime

BY_USER = "Client.UserInitiatedShutdown: User initiated shutdown"
_LIVES = ("pending", "running", "stopping", "stopped")


class HostileCompute:
    """Port Compute. `zones`: by subnet; `ends_within`: what a termination takes, at least and at most."""

    def __init__(
        self,
        account: Account,
        time: VirtualTime,
        chance: random.Random,
        zones: Mapping[str, str],
        environment: str,
    ) -> None:
        # What the type carries to all its volumes.
        self.ebs_mib_per_s = 77.49
        self._account = account
        self._time = time
        self._random = chance
        self._zones = zones
        self._environment = environment
        self.ends_within = (15.0, 120.0)
        # What is not as usual: by type, by image, and a capacity reservation group's room or EC2's refusal of its name.
        self.vcpus: dict[str, int] = {"r6i.large": 2, "r6i.xlarge": 4, "r5.large": 2}
        self.promises: dict[str, InstancePromise] = {}
        self.image_is_under: dict[str, Sequence[str] | Unknown] = {}
        self.images_gone: set[str] = set()
        self.image_maps: Sequence[str] = ["/dev/xvda"]
        self.image_is: str | Unknown = "Linux/UNIX"
        self.reservations: list[CapacityReservation] = []
        self.group_room = 0
        self.group_refused: Exception | None = None

    def instances_of_cluster(self, cluster: str) -> list[Instance]:
        return self._tagged(CLUSTER_TAG, cluster)

    def instances_of_environment(self, cluster: str | None = None) -> list[Instance]:
        found = self._tagged(OWNER_TAG, self._environment)
        return [one for one in found if cluster in (None, one.tags.get(CLUSTER_TAG))]

    def instances_of_run(self, run_id: str) -> list[Instance]:
        return self._tagged(RUN_TAG, run_id)

    def instance(self, instance_id: str) -> Instance:
        record = self._account.instances.get(instance_id)
        if record is None or not self._shown(record):
            raise ResourceNotFound(f"ec2:DescribeInstances: InvalidInstanceID.NotFound: {instance_id}")
        return self._instance(record, self._time.seconds)

    def on_demand_instances(self) -> Sequence[Instance] | Unknown:
        then = stale(self._random, self._time.seconds)
        found = [self._instance(one, then) for one in self._account.instances.values() if self._shown(one)]
        return [one for one in found if one.state in ("pending", "running")]

    def default_vcpus(self, instance_types: Sequence[str]) -> Mapping[str, int]:
        return {kind: self.vcpus[kind] for kind in instance_types if kind in self.vcpus}

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        usual = InstancePromise(
            baseline_iops=3600,
            baseline_mib_per_s=self.ebs_mib_per_s,
            memory_mib=16_384,
            architectures=("x86_64",),
        )
        return self.promises.get(instance_type, usual)

    def image_keys(self, image_id: str) -> Sequence[str] | Unknown:
        if image_id in self.images_gone:
            raise ResourceNotFound(f"ec2:DescribeImages: no image {image_id}")
        return self.image_is_under.get(image_id, [])

    def image_devices(self, image_id: str) -> Sequence[str]:
        return self.image_maps

    def platform(self, image_id: str) -> str | Unknown:
        return self.image_is

    def capacity_reservations(self) -> list[CapacityReservation]:
        return self.reservations

    def launch(self, spec: InstanceSpec, client_token: str) -> Instance:
        now, asked = self._time.seconds, repr(spec)
        if client_token in self._account.tokens:
            before, instance_id = self._account.tokens[client_token]
            if before != asked:
                raise AwsCallRejected("ec2:RunInstances: IdempotentParameterMismatch")
            return self._instance(self._account.instances[instance_id], now)
        zone = self._zones[spec.subnet_id]
        full = zone in self._account.full_zones or spec.instance_type in self._account.full_types
        if not self._enters(spec.capacity_reservation_group_arn) and full:
            raise CapacityUnavailable(f"ec2:RunInstances: InsufficientInstanceCapacity: {zone}")
        record = self.made(spec.tags, zone, spec.instance_type)
        record["client_token"] = client_token
        self._account.tokens[client_token] = (asked, record["id"])
        return self._instance(record, now)

    def stop(self, instance_id: str) -> None:
        record, state = self._present(instance_id, "ec2:StopInstances")
        if state in ("stopping", "stopped"):
            return
        now, later = self._time.seconds, self._random.uniform(20, 150)
        change(record, now, (0, "stopping"), (later, "stopped"))
        self._account.goes_down(instance_id, now)

    def start(self, instance_id: str, capacity_reservation_group_arn: str | None = None) -> None:
        record, state = self._present(instance_id, "ec2:StartInstances")
        if state in ("pending", "running"):
            return
        if state != "stopped":
            raise AwsCallRejected(f"ec2:StartInstances: IncorrectInstanceState: {instance_id} is {state}")
        if not self._enters(capacity_reservation_group_arn) and record["zone"] in self._account.full_zones:
            raise CapacityUnavailable(f"ec2:StartInstances: InsufficientInstanceCapacity: {record['zone']}")
        self._boots(record)

    def terminate(self, instance_id: str) -> None:
        record = self._account.instances.get(instance_id)
        now = self._time.seconds
        if record is None or state_at(record, now) not in _LIVES:
            return
        later = self._random.uniform(*self.ends_within)
        change(record, now, (0, "shutting-down"), (later, "terminated"))
        self._account.goes_down(instance_id, now)
        for volume in self._account.volumes.values():
            held = attachment_at(volume, now)
            if held is None or held["instance"] != instance_id:
                continue
            free = now + later + self._random.uniform(0, 10)
            for one in volume["attachments"]:
                if one["instance"] == instance_id and one["until"] is None:
                    one["until"] = free
            if held["deleted_with_it"]:
                volume["history"].append((free, "deleted"))

    def add(self, instance: Instance) -> Instance:
        """Put an instance there as it is, long since; while it runs, its host works and has a database."""
        now = self._time.seconds
        record: Record = {
            "id": instance.instance_id,
            "zone": instance.zone,
            "type": instance.instance_type,
            "tags": dict(instance.tags),
            "private_ip": instance.private_ip,
            "launched": self._time.seconds_of(instance.launched_at),
            "shown": LONG_AGO,
            "history": [(LONG_AGO, instance.state)],
            "client_token": instance.client_token,
            "reason": instance.state_reason,
        }
        self._account.instances[instance.instance_id] = record
        for what in ("up", "database", "package", "verified"):
            self._account.happened(instance.instance_id, LONG_AGO, what, True)
        if instance.state != "running":
            self._account.goes_down(instance.instance_id, now)
        return instance

    def forget(self, instance_id: str) -> None:
        """It has ended so long ago that EC2 does not know it."""
        self.terminate(instance_id)
        self._account.instances[instance_id]["history"] = [(LONG_AGO, "terminated")]

    def _enters(self, group: str | None) -> bool:
        """Whether the capacity reservation group has room for one more instance."""
        if group is not None and self.group_refused is not None:
            raise self.group_refused
        if group is None or self.group_room < 1:
            return False
        self.group_room -= 1
        return True

    def made(self, tags: Mapping[str, str], zone: str, instance_type: str) -> Record:
        """A new instance with its root volume."""
        now, account = self._time.seconds, self._account
        instance_id = account.next_id("i")
        record: Record = {
            "id": instance_id,
            "zone": zone,
            "type": instance_type,
            "tags": dict(tags),
            "private_ip": f"10.77.{len(account.instances) // 250}.{len(account.instances) % 250 + 4}",
            "launched": now,
            "shown": now + self._random.uniform(0, INSTANCE_SHOWN_WITHIN),
            "history": [],
        }
        account.instances[instance_id] = record
        self._boots(record)
        root = account.next_id("vol")
        account.volumes[root] = {
            "id": root,
            "zone": zone,
            "size": 16,
            "type": "gp3",
            "tags": {**tags, VOLUME_TAG: "root"},
            "snapshot": None,
            "shown": now + self._random.uniform(0, OTHERS_SHOWN_WITHIN),
            "history": [(now, "available")],
            "attachments": [attachment(instance_id, "/dev/sda1", now, now + 5, deleted_with_it=True)],
        }
        return record

    def _boots(self, record: Record) -> None:
        now = self._time.seconds
        running = self._random.uniform(8, 45)
        record["launched"] = now  # LaunchTime is that of the last start
        change(record, now, (0, "pending"), (running, "running"))
        self._account.happened(record["id"], now + running + self._random.uniform(15, 90), "up", True)

    def _present(self, instance_id: str, action: str) -> tuple[Record, str]:
        record = self._account.instances.get(instance_id)
        if record is None:
            raise ResourceNotFound(f"{action}: InvalidInstanceID.NotFound: {instance_id}")
        state = state_at(record, self._time.seconds)
        if state not in _LIVES:
            raise AwsCallRejected(f"{action}: IncorrectInstanceState: {instance_id} is {state}")
        return record, state

    def _tagged(self, tag: str, value: str) -> list[Instance]:
        then = stale(self._random, self._time.seconds)
        found = [
            self._instance(record, then)
            for record in self._account.instances.values()
            if record["tags"].get(tag) == value and self._shown(record)
        ]
        return [one for one in found if one.state != "terminated"]

    def _shown(self, record: Record) -> bool:
        now = self._time.seconds
        gone = record["history"][-1]
        return record["shown"] <= now and not (
            gone[1] == "terminated" and gone[0] + TERMINATED_SHOWN_FOR < now
        )

    def _instance(self, record: Record, second: float) -> Instance:
        state = state_at(record, second)
        return Instance(
            instance_id=record["id"],
            state=state,
            private_ip=record["private_ip"],
            zone=record["zone"],
            instance_type=record["type"],
            launched_at=self._time.datetime_of(record["launched"]),
            tags=dict(record["tags"]),
            client_token=record.get("client_token"),
            state_reason="" if state in ("pending", "running") else record.get("reason") or BY_USER,
        )
