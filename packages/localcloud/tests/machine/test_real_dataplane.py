"""The chain that a replica is made by, through the AWS API, on real hosts, volumes and an endpoint."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from cloud_rig.clocks import REAL_TIME, at_scale
from cloud_rig.real_machine import IMAGES, STATE, built_mysql_image, free_port, own_network
from cloud_rig.resources import IMAGE, ResourceCloud, eventually
from localcloud.blockstore import ColdBlockStore, cleanup
from localcloud.dataplane import DataPlane
from localcloud.extensions.elbv2.lateness import PROMPT
from localcloud.hosts import NamespaceHosts
from localcloud.open_cloud import CloudSettings
from localcloud.read_endpoint import HaproxyReadEndpoints
from localcloud.server import LocalCloud

MIB = 1024 * 1024
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts and volumes need root"),
]

# A MySQL replica as far as the endpoint is concerned: a port that says who it is, and a health port.
SERVICE = """
cat >/tmp/service.py <<'PYTHON'
import http.server, socketserver, threading, sys
class Greeter(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(sys.argv[1].encode())
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
threading.Thread(target=socketserver.ThreadingTCPServer(("", 3306), Greeter).serve_forever).start()
http.server.HTTPServer(("", 9200), Health).serve_forever()
PYTHON
setsid python3 /tmp/service.py "$(hostname)" >/dev/null 2>&1 </dev/null &
"""


@pytest.fixture
def real() -> Iterator[ResourceCloud]:
    built_mysql_image()
    state_dir = STATE / f"test-real-{os.getpid()}"
    volumes = ColdBlockStore(state_dir, pool_bytes=8 * 1024 * MIB)
    hosts = NamespaceHosts(state_dir, IMAGES, own_network(7))
    plane = DataPlane(volumes, hosts, HaproxyReadEndpoints(state_dir))
    try:
        settings = CloudSettings(snapshot_seconds=0.5, balancer_lateness=PROMPT)
        bridge = (hosts.gateway,)
        with LocalCloud(plane, state_dir, 0, 60, extra_addresses=bridge, settings=settings) as cloud:
            yield ResourceCloud(cloud, plane)  # type: ignore[arg-type]
    finally:
        plane.close()
        cleanup(state_dir)
        shutil.rmtree(state_dir)


def own_subnet(aws: ResourceCloud) -> str:
    """A subnet in the range of this test's own bridge."""
    network = own_network(7).network
    vpc_id = aws.ec2.create_vpc(CidrBlock=str(network))["Vpc"]["VpcId"]
    subnet = next(network.subnets(new_prefix=24))
    answer = aws.ec2.create_subnet(VpcId=vpc_id, CidrBlock=str(subnet), AvailabilityZone="us-east-1a")
    return str(answer["Subnet"]["SubnetId"])


def replica(aws: ResourceCloud, subnet_id: str) -> str:
    return aws.launched(ImageId=IMAGE, SubnetId=subnet_id, SecurityGroupIds=[])


def run(aws: ResourceCloud, instance_id: str, *lines: str) -> str:
    """Run a script through SSM; its output. Fails with its errors."""
    command_id = aws.ssm.send_command(
        InstanceIds=[instance_id],
        DocumentName="AWS-RunShellScript",
        Parameters={"commands": ["set -eu", *lines], "executionTimeout": ["60"]},
    )["Command"]["CommandId"]

    def ended() -> dict[str, Any] | None:
        with contextlib.suppress(aws.ssm.exceptions.InvocationDoesNotExist):
            found = aws.ssm.get_command_invocation(CommandId=command_id, InstanceId=instance_id)
            return dict(found) if found["Status"] not in ("Pending", "InProgress") else None
        return None

    answer = eventually(ended, seconds=120)
    assert answer["Status"] == "Success", answer["StandardErrorContent"]
    return str(answer["StandardOutputContent"])


def by_id(volume_id: str) -> str:
    return f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"


def test_a_donors_file_is_on_the_volume_that_a_second_host_got_from_its_snapshot(real: ResourceCloud) -> None:
    subnet_id = own_subnet(real)
    donor = replica(real, subnet_id)
    source = real.attached_volume(donor, Size=1)
    written = run(
        real,
        donor,
        f"mkfs.xfs -q {by_id(source)}",
        "mkdir -p /srv/data && mount /dev/sdf /srv/data",
        "head -c 50000000 /dev/urandom >/srv/data/rows",
        "sync && sha256sum </srv/data/rows",
    )
    snapshots = real.ec2.create_snapshots(
        InstanceSpecification={"InstanceId": donor, "ExcludeBootVolume": True}
    )["Snapshots"]
    assert [snapshot["VolumeId"] for snapshot in snapshots] == [source]
    snapshot_id = snapshots[0]["SnapshotId"]
    run(real, donor, "rm /srv/data/rows", "sync")  # later than the instant of the snapshot
    eventually(lambda: real.snapshot(snapshot_id).get("State") == "completed")
    assert real.snapshot(snapshot_id)["FullSnapshotSizeInBytes"] >= 50_000_000

    second = replica(real, subnet_id)
    copy = real.attached_volume(second, SnapshotId=snapshot_id, VolumeInitializationRate=300)
    read = run(
        real,
        second,
        "mkdir -p /srv/data && mount -o nouuid /dev/sdf /srv/data",
        "sha256sum </srv/data/rows",
        f"test ! -e {by_id(source)}",  # it sees its own volumes only
    )
    assert read == written
    run(real, second, "umount /srv/data")
    real.ec2.detach_volume(VolumeId=copy)
    eventually(lambda: real.volume(copy)["State"] == "available")
    for instance_id in (donor, second):
        real.ec2.terminate_instances(InstanceIds=[instance_id])
        eventually(lambda instance_id=instance_id: real.instance_state(instance_id) == "terminated")
    assert real.volume(source)["State"] == "available"
    for volume_id in (source, copy):
        real.ec2.delete_volume(VolumeId=volume_id)


def test_the_read_endpoint_reaches_healthy_replicas_and_lets_a_leaving_one_drain(real: ResourceCloud) -> None:
    subnet_id, port = own_subnet(real), free_port()
    replicas = [replica(real, subnet_id), replica(real, subnet_id)]
    for instance_id in replicas:
        run(real, instance_id, SERVICE)
    vpc_id = real.ec2.describe_subnets(SubnetIds=[subnet_id])["Subnets"][0]["VpcId"]
    balancer = real.elbv2.create_load_balancer(Name="orders-reads", Type="network", Subnets=[subnet_id])
    group = real.elbv2.create_target_group(
        Name="orders", Protocol="TCP", Port=3306, VpcId=vpc_id, TargetType="instance",
        HealthCheckProtocol="HTTP", HealthCheckPort="9200", HealthCheckPath="/",
    )["TargetGroups"][0]["TargetGroupArn"]  # fmt: skip
    real.elbv2.create_listener(
        LoadBalancerArn=balancer["LoadBalancers"][0]["LoadBalancerArn"],
        Protocol="TCP",
        Port=port,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group}],
    )

    def states() -> dict[str, str]:
        found = real.elbv2.describe_target_health(TargetGroupArn=group)["TargetHealthDescriptions"]
        return {entry["Target"]["Id"]: entry["TargetHealth"]["State"] for entry in found}

    def who_answers() -> set[str]:
        answers = set()
        for _ in range(12):
            with socket.create_connection(("127.0.0.1", port), 60) as connection:
                answers.add(connection.recv(64).decode())
        return answers

    names = {i: real.instance(i)["PrivateDnsName"].split(".")[0] for i in replicas}
    real.elbv2.register_targets(TargetGroupArn=group, Targets=[{"Id": i} for i in replicas])
    eventually(lambda: set(states().values()) == {"healthy"}, seconds=120)
    assert who_answers() == set(names.values())
    leaving, staying = replicas
    with at_scale(real.cloud.clock, REAL_TIME):  # it drains for 300 s, of which a busy machine has all
        real.elbv2.deregister_targets(TargetGroupArn=group, Targets=[{"Id": leaving}])
        assert states() == {leaving: "draining", staying: "healthy"}
        assert who_answers() == {names[staying]}
    eventually(lambda: list(states()) == [staying], seconds=120)  # 300 s of cloud time


def test_a_parked_replica_comes_back_with_its_files_its_address_and_its_warm_volume(
    real: ResourceCloud,
) -> None:
    subnet_id = own_subnet(real)
    donor = replica(real, subnet_id)
    source = real.attached_volume(donor, Size=1)
    run(
        real,
        donor,
        "mkfs.xfs -q /dev/sdf && mkdir -p /srv && mount /dev/sdf /srv",
        "head -c 50000000 /dev/urandom >/srv/rows && sync",
    )
    snapshot_id = real.completed_snapshot(source)
    parked = replica(real, subnet_id)
    copy = real.attached_volume(parked, SnapshotId=snapshot_id)
    run(
        real,
        parked,
        "mkdir -p /srv && mount -o nouuid /dev/sdf /srv",
        "head -c 20000000 /srv/rows >/dev/null",
        "echo kept >/root/note",
        "setsid sleep 4714 >/dev/null 2>&1 </dev/null &",
    )
    address = real.instance(parked)["PrivateIpAddress"]
    before = real.plane.volumes.stat(copy)
    assert 0 < before.blocks_cold < before.blocks_in_snapshot

    real.ec2.stop_instances(InstanceIds=[parked])
    eventually(lambda: real.instance_state(parked) == "stopped")
    assert real.agent(parked) == "ConnectionLost"
    assert real.attachment_state(copy) == "attached"
    real.ec2.start_instances(InstanceIds=[parked])
    eventually(lambda: real.agent(parked) == "Online")
    assert real.plane.volumes.stat(copy).blocks_cold == before.blocks_cold
    assert real.instance(parked)["PrivateIpAddress"] == address
    seen = run(
        real,
        parked,
        "cat /root/note; findmnt -n /srv || echo nothing mounted; pgrep -f '^sleep 4714' || echo nothing runs",
        "mount -o nouuid /dev/sdf /srv && head -c 20000000 /srv/rows | wc -c",
    )
    assert seen.split("\n")[:-1] == ["kept", "nothing mounted", "nothing runs", "20000000"]
    fetched = before.blocks_cold - real.plane.volumes.stat(copy).blocks_cold
    assert fetched < 10  # mount reads a little of what nobody had read
