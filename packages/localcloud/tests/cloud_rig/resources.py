"""A local cloud on a simulated data plane, and the calls that most tests of its resources begin with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cloud_rig.clocks import ALL_BUT_STOPPED, at_scale
from localcloud.extensions.ec2 import capacity_reservations, ebs, ebs_actions, ebs_records, instances, state
from localcloud.extensions.elbv2.lateness import PROMPT, BalancerLateness
from localcloud.extensions.ssm import commands
from localcloud.open_cloud import CloudSettings
from localcloud.server import LocalCloud
from localcloud.simulated_dataplane import SimulatedDataPlane, simulated_dataplane

IMAGE = "ami-0a770000000000097"
SUBNET_A = "subnet-0a77000000000001a"
SUBNET_B = "subnet-0a77000000000001b"
# Where EC2 and SSM show late, and pass through states in between, by real seconds.
BY_REAL_SECONDS = (
    *(capacity_reservations, ebs, ebs_actions, ebs_records, instances, state),
    commands,
)


def eventually(look: Callable[[], Any], seconds: float = 240.0) -> Any:
    """The first truthy answer of `look`; fails with the last answer when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {seconds} s"
        time.sleep(0.02)


@dataclass
class ResourceCloud:
    """An open local cloud with its simulated data plane and the clients that the tests use."""

    cloud: LocalCloud
    plane: SimulatedDataPlane

    def __getattr__(self, service: str) -> Any:
        return self.cloud.client(service)

    @contextmanager
    def stopped_clock(self) -> Iterator[None]:
        """What is seen late is not seen yet, however long the machine takes for the calls."""
        now = time.monotonic()
        stopped = SimpleNamespace(monotonic=lambda: now, sleep=time.sleep)
        with ExitStack() as changes:
            changes.enter_context(at_scale(self.cloud.clock, ALL_BUT_STOPPED))
            for module in BY_REAL_SECONDS:
                changes.enter_context(patch.object(module, "time", stopped))
            yield

    @contextmanager
    def held(self, *actions: str) -> Iterator[None]:
        """What the cloud asks of its hosts by these actions waits until the end of the block."""
        may_go_on = threading.Event()

        def waiting(original: Callable[..., Any]) -> Callable[..., Any]:
            def wait(*arguments: Any, **named: Any) -> Any:
                may_go_on.wait()
                return original(*arguments, **named)

            return wait

        with ExitStack() as patches:
            patches.callback(may_go_on.set)
            for action in actions:
                original = getattr(self.plane.hosts, action)
                patches.enter_context(patch.object(self.plane.hosts, action, waiting(original)))
            yield

    def launch(self, **changes: Any) -> str:
        """RunInstances of one replica in us-east-1a, or as changed."""
        request = {
            "ImageId": IMAGE,
            "InstanceType": "r6i.large",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": SUBNET_A,
            "SecurityGroupIds": ["sg-0a770000000000001"],
            **changes,
        }
        answer = self.ec2.run_instances(**request)
        return str(answer["Instances"][0]["InstanceId"])

    def launched(self, **changes: Any) -> str:
        """An instance that runs and whose agent is online."""
        instance_id = self.launch(**changes)
        eventually(lambda: self.instance_state(instance_id) == "running")
        eventually(lambda: self.agent(instance_id) == "Online")
        return instance_id

    def instance(self, instance_id: str) -> dict[str, Any]:
        """DescribeInstances by filter, which knows no NotFound; {} when it is not there."""
        filters = [{"Name": "instance-id", "Values": [instance_id]}]
        found = self.ec2.describe_instances(Filters=filters)["Reservations"]
        return dict(found[0]["Instances"][0]) if found else {}

    def instance_state(self, instance_id: str) -> str | None:
        instance = self.instance(instance_id)
        return instance["State"]["Name"] if instance else None

    def agent(self, instance_id: str) -> str | None:
        filters = [{"Key": "InstanceIds", "Values": [instance_id]}]
        found = self.ssm.describe_instance_information(Filters=filters)["InstanceInformationList"]
        return str(found[0]["PingStatus"]) if found else None

    def volume(self, volume_id: str) -> dict[str, Any]:
        filters = [{"Name": "volume-id", "Values": [volume_id]}]
        found = self.ec2.describe_volumes(Filters=filters)["Volumes"]
        return dict(found[0]) if found else {}

    def available_volume(self, **changes: Any) -> str:
        request = {"AvailabilityZone": "us-east-1a", "Size": 4, "VolumeType": "gp3", **changes}
        if "SnapshotId" in changes:
            request.pop("Size")
        volume_id = str(self.ec2.create_volume(**request)["VolumeId"])
        eventually(lambda: self.volume(volume_id).get("State") == "available")
        return volume_id

    def attached_volume(self, instance_id: str, device: str = "/dev/sdf", **changes: Any) -> str:
        volume_id = self.available_volume(**changes)
        self.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)
        eventually(lambda: self.attachment_state(volume_id) == "attached")
        return volume_id

    def attachment_state(self, volume_id: str) -> str | None:
        attachments = self.volume(volume_id).get("Attachments", [])
        return str(attachments[0]["State"]) if attachments else None

    def snapshot(self, snapshot_id: str) -> dict[str, Any]:
        filters = [{"Name": "snapshot-id", "Values": [snapshot_id]}]
        found = self.ec2.describe_snapshots(Filters=filters, OwnerIds=["self"])["Snapshots"]
        return dict(found[0]) if found else {}

    def completed_snapshot(self, volume_id: str) -> str:
        snapshot_id = str(self.ec2.create_snapshot(VolumeId=volume_id)["SnapshotId"])
        eventually(lambda: self.snapshot(snapshot_id).get("State") == "completed")
        return snapshot_id


@contextmanager
def open_cloud(
    state_dir: Path, balancer_lateness: BalancerLateness = PROMPT, **settings: float | str
) -> Iterator[ResourceCloud]:
    """A local cloud on a simulated data plane, with short delays unless `settings` says otherwise."""
    plane = simulated_dataplane()
    delays = {"describe_delay_seconds": 0.1, "snapshot_seconds": 0.2, **settings}
    chosen = CloudSettings(**delays, balancer_lateness=balancer_lateness)  # type: ignore[arg-type]
    with LocalCloud(plane, state_dir, settings=chosen) as cloud:
        yield ResourceCloud(cloud, plane)
