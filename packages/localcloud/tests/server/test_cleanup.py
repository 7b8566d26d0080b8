"""Cleaning up after a local cloud that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_rig.real_machine import (
    IMAGES,
    address,
    built_mysql_image,
    new_instance_id,
    own_network,
    with_this_package,
)
from localcloud.cleanup import clean, leftovers, marked_processes
from localcloud.dataplane import DataPlaneError, HostSpec
from localcloud.hosts import NamespaceHosts
from localcloud.hosts.network import links, namespace_name, namespaces
from localcloud.hosts.state_lock import StateLock, live_server

pytestmark = pytest.mark.real


# A local cloud's data plane with everything in use: a mounted volume, a running program, an open connection.
HOLDER = """
import signal, sys
from pathlib import Path
from localcloud.blockstore import ColdBlockStore
from localcloud.dataplane import HostSpec, ReadEndpointSpec, Target, VolumeLimits
from localcloud.hosts import NamespaceHosts, NetworkPlan
from localcloud.read_endpoint import HaproxyReadEndpoints

state, images = Path(sys.argv[1]), Path(sys.argv[2])
instance_id, image_id, host_address, port = sys.argv[5], sys.argv[6], sys.argv[7], int(sys.argv[8])
volumes = ColdBlockStore(state)
hosts = NamespaceHosts(state, images, NetworkPlan(sys.argv[3], sys.argv[4]))
endpoints = HaproxyReadEndpoints(state)
hosts.launch(HostSpec(instance_id, image_id, host_address, "held"))
volumes.create_volume("vol-00000000000000001", 1 << 30, VolumeLimits())
hosts.plug(instance_id, "/dev/sdf", "vol-00000000000000001", volumes.attach("vol-00000000000000001"))
script = "mkfs.xfs -q /dev/sdf && mount /dev/sdf /mnt && { while date > /mnt/x; do sleep 0.01; done & } && findmnt /mnt"
booted = "until grep -q sleep /proc/1/comm; do sleep 0.01; done; "
result = hosts.start_command(instance_id, ["bash", "-c", booted + script]).wait(60)
assert result.exit_code == 0, result
endpoints.apply(ReadEndpointSpec("orders", port, (Target(instance_id, host_address, 3306),)))
print("holding", flush=True)
signal.pause()
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    clean(tmp_path, force=True)


@pytest.fixture
def holder(state: Path) -> Iterator[subprocess.Popen[str]]:
    image_id, network = built_mysql_image(), own_network(offset=2)
    arguments = [
        *(str(state), str(IMAGES), network.bridge, network.cidr),
        *(new_instance_id(), image_id, address(network, 1), str(20000 + os.getpid() % 10000)),
    ]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments], env=with_this_package(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        yield process
        process.kill()


def test_after_a_kill_everything_is_found_and_removed(state: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    found = "\n".join(leftovers(state))
    for kind in ("(haproxy)", "(sleep)", "network namespace pkr-", "link pkt", "loop device", "mount "):
        assert kind in found

    removed = clean(state)

    assert len(removed) >= 6
    assert leftovers(state) == []
    assert str(state) not in subprocess.run(["losetup", "--list"], capture_output=True, text=True).stdout
    assert str(state) not in Path("/proc/self/mountinfo").read_text()
    assert clean(state) == []


def test_a_live_server_is_not_cleaned_under_unless_forced(state: Path, holder: subprocess.Popen[str]) -> None:
    assert live_server(state) == holder.pid
    with pytest.raises(DataPlaneError, match=f"process {holder.pid}"):
        clean(state)
    assert holder.poll() is None
    assert len(marked_processes(state)) >= 3

    clean(state, force=True)

    assert holder.wait(60) == -signal.SIGKILL
    assert leftovers(state) == []


def test_another_checkout_is_not_touched(tmp_path: Path) -> None:
    network = own_network(offset=3)
    hosts = NamespaceHosts(tmp_path / "theirs", IMAGES, network)
    instance_id = new_instance_id()
    hosts.launch(HostSpec(instance_id, built_mysql_image(), address(network, 1), "theirs"))
    try:
        (tmp_path / "ours" / "instances" / instance_id).mkdir(parents=True)
        assert leftovers(tmp_path / "ours") == [str(tmp_path / "ours" / "instances" / instance_id)]
        clean(tmp_path / "ours")
        assert hosts.is_up(instance_id)
        assert namespace_name(instance_id) in namespaces()
        assert network.bridge in links()
    finally:
        hosts.close()


def test_the_network_of_a_killed_one_is_not_in_the_way_of_another_checkout(
    tmp_path_factory: pytest.TempPathFactory, state: Path, holder: subprocess.Popen[str]
) -> None:
    network = own_network(offset=2)
    ours = tmp_path_factory.mktemp("ours")
    hosts = NamespaceHosts(ours, IMAGES, network)
    instance_id = new_instance_id()
    spec = HostSpec(instance_id, built_mysql_image(), address(network, 1), "ours")
    try:
        with pytest.raises(DataPlaneError, match=f"{network.bridge} already exists and belongs to peaker"):
            hosts.launch(spec)

        holder.kill()
        holder.wait()
        hosts.launch(spec)

        assert links()[network.bridge]["ifalias"] == f"peaker {ours}"
        found = "\n".join(leftovers(state))
        assert "pkt" not in found
        assert "loop device" in found  # files and devices stay for their own checkout's cleanup
    finally:
        hosts.close()


def test_the_state_lock_is_shared_in_a_process_and_refused_to_another(tmp_path: Path) -> None:
    first, second = StateLock(tmp_path), StateLock(tmp_path)
    first.acquire()
    second.acquire()
    first.release()
    assert live_server(tmp_path) == os.getpid()
    other = (
        "import sys; from pathlib import Path; from localcloud.hosts.state_lock import StateLock\n"
        "StateLock(Path(sys.argv[1])).acquire()"
    )
    command = [sys.executable, "-c", other, str(tmp_path)]
    refused = subprocess.run(command, env=with_this_package(), capture_output=True, text=True)
    assert f"process {os.getpid()}" in refused.stderr
    second.release()
    assert live_server(tmp_path) is None
    assert subprocess.run(command, env=with_this_package(), capture_output=True).returncode == 0
