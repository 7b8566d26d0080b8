"""Hosts as namespaces: real ones, on the MySQL image."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_rig.real_machine import IMAGES, address, built_mysql_image, new_instance_id, own_network
from cloud_rig.resources import eventually
from localcloud.dataplane import BlockDevice, DataPlaneError, HostSpec, RunResult
from localcloud.hosts import NamespaceHosts, NetworkPlan
from localcloud.hosts.network import namespace_name, namespaces

pytestmark = pytest.mark.real

NETWORK = own_network()
# Names of processes that no other test run on the machine has.
MINE = os.getpid()
SERVICE_FILE = f"/root/service-{MINE}.sh"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceHosts]:
    built_mysql_image()
    hosts = NamespaceHosts(tmp_path_factory.mktemp("state"), IMAGES, NETWORK)
    yield hosts
    hosts.close()


class Launcher:
    """Starts hosts and terminates them after the test."""

    def __init__(self, hosts: NamespaceHosts) -> None:
        self.hosts = hosts
        self.started: list[str] = []

    def __call__(self, number: int = 1) -> str:
        instance_id = new_instance_id()
        spec = HostSpec(instance_id, built_mysql_image(), address(NETWORK, number), f"ip-host-{number}")
        self.hosts.launch(spec)
        self.started.append(instance_id)
        return instance_id

    def run(self, instance_id: str, script: str, timeout_seconds: float = 60) -> RunResult:
        return self.hosts.start_command(instance_id, ["bash", "-c", script]).wait(timeout_seconds)

    def await_process(self, instance_id: str, command_line: str) -> None:
        """Who starts a command or puts one into the background is told so before it has begun."""
        eventually(lambda: self.run(instance_id, f"pgrep -fx '{command_line}'").exit_code == 0)


@pytest.fixture
def launch(hosts: NamespaceHosts) -> Iterator[Launcher]:
    launcher = Launcher(hosts)
    yield launcher
    for instance_id in launcher.started:
        hosts.terminate(instance_id)


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[BlockDevice]:
    file = tmp_path / "volume.raw"
    with file.open("wb") as volume:
        volume.truncate(64 * 1024 * 1024)
    path = subprocess.run(
        ["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=True
    ).stdout.strip()
    number = os.stat(path).st_rdev
    yield BlockDevice(path, os.major(number), os.minor(number))
    subprocess.run(["losetup", "--detach", path], check=True)


def test_a_host_boots_with_its_own_name_address_and_processes(launch: Launcher) -> None:
    instance_id = launch(7)

    seen = launch.run(instance_id, "hostname; ip -4 -o addr show eth0; ps -e --no-headers | wc -l")

    name, link, processes = seen.stdout.splitlines()
    assert name == "ip-host-7"
    assert f"{address(NETWORK, 7)}/16" in link
    assert int(processes) <= 5
    # It is ready a moment before its boot script has become its init.
    eventually(lambda: launch.run(instance_id, "cat /proc/1/comm").stdout == "sleep\n")


def test_hosts_reach_each_other_and_this_machine_by_tcp(hosts: NamespaceHosts, launch: Launcher) -> None:
    first, second = launch(1), launch(2)
    serve = "import socket; s=socket.create_server(('0.0.0.0', 7000)); c,_=s.accept(); c.sendall(b'hello')"
    server = hosts.start_command(first, ["python3", "-c", serve])
    reach = (
        "import socket,time\n"
        "for _ in range(1200):\n"
        "    try: s=socket.create_connection(({!r}, 7000), 60); break\n"
        "    except ConnectionRefusedError: time.sleep(0.05)\n"
        "print(s.recv(9).decode(), s.getpeername()[0])"
    )
    client = hosts.start_command(second, ["python3", "-c", reach.format(address(NETWORK, 1))]).wait(60)
    assert client.stdout.split() == ["hello", address(NETWORK, 1)]
    assert server.wait(60).exit_code == 0

    import socketserver
    import threading

    with socketserver.TCPServer((hosts.gateway, 0), socketserver.StreamRequestHandler) as here:
        threading.Thread(target=here.handle_request, daemon=True).start()
        connect = (
            f"import socket; socket.create_connection(({hosts.gateway!r}, {here.server_address[1]}), 60)"
        )
        assert hosts.start_command(second, ["python3", "-c", connect]).wait(60).exit_code == 0


def test_a_volume_shows_at_its_nitro_names_in_its_own_host_only(
    hosts: NamespaceHosts, launch: Launcher, loop_device: BlockDevice
) -> None:
    owner, other = launch(1), launch(2)
    by_id = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"

    hosts.plug(owner, "/dev/sdf", "vol-0123456789abcdef0", loop_device)
    hosts.plug(owner, "/dev/sdf", "vol-0123456789abcdef0", loop_device)

    seen = launch.run(
        owner, f"readlink -f /dev/sdf {by_id}; blockdev --getsize64 /dev/nvme1n1; find /dev -type b"
    )
    assert seen.stdout.split() == ["/dev/nvme1n1", "/dev/nvme1n1", str(64 * 1024 * 1024), "/dev/nvme1n1"]
    assert launch.run(other, "find /dev -type b; ls /dev/disk/by-id").stdout == ""
    with pytest.raises(DataPlaneError, match="/dev/sdf"):
        hosts.plug(owner, "sdf", "vol-0fedcba9876543210", loop_device)

    hosts.unplug(owner, "vol-0123456789abcdef0")
    hosts.unplug(owner, "vol-0123456789abcdef0")
    assert launch.run(owner, "find /dev -type b; ls /dev/disk/by-id").stdout == ""


SERVICES = """
set -eu
mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt
cat >/root/service.sh <<'SH'
echo "$1 started" >>/root/log
trap 'echo "$1 ended" >>/root/log; exit 0' TERM
while :; do sleep 0.05; done
SH
for name in first second idle; do
    printf '[Service]\nExecStart=/bin/sh /root/service.sh %s\n[Install]\nWantedBy=multi-user.target\n' $name \
        >/etc/systemd/system/$name.service
done
systemctl enable second
begun() { until grep -q "$1 started" /root/log; do sleep 0.02; done; }
systemctl start first
begun first
systemctl start second
begun second
setsid sh /root/service.sh stray >/dev/null 2>&1 </dev/null &
begun stray
echo kept >/mnt/file
""".replace("/root/service.sh", SERVICE_FILE)


def test_a_stop_ends_services_in_order_and_a_start_brings_up_those_that_are_enabled(
    hosts: NamespaceHosts, launch: Launcher, loop_device: BlockDevice
) -> None:
    instance_id = launch(3)
    hosts.plug(instance_id, "/dev/sdf", "vol-0123456789abcdef0", loop_device)
    assert launch.run(instance_id, SERVICES).exit_code == 0
    command = hosts.start_command(instance_id, ["sleep", "4713"])
    launch.await_process(instance_id, "sleep 4713")
    hosts.stop(instance_id)
    assert command.wait(60).exit_code == 128 + signal.SIGTERM
    assert not _machine_processes(f"sh {SERVICE_FILE}")
    clean = subprocess.run(["dumpe2fs", "-h", loop_device.path], capture_output=True, text=True, check=True)
    assert "needs_recovery" not in clean.stdout

    hosts.start(instance_id)
    launch.run(instance_id, "until grep -c 'second started' /root/log | grep -q 2; do sleep 0.02; done")
    seen = launch.run(instance_id, "cat /root/log; systemctl is-active first second idle; findmnt /mnt")
    assert seen.stdout.split("\n")[:-1] == [
        *("first started", "second started", "stray started"),
        *("second ended", "first ended", "stray ended"),
        "second started",
        *("inactive", "active", "inactive"),
    ]
    assert launch.run(instance_id, "mount /dev/sdf /mnt && cat /mnt/file").stdout == "kept\n"


def test_a_stop_by_force_lets_nothing_end_in_order(hosts: NamespaceHosts, launch: Launcher) -> None:
    instance_id = launch(3)
    launch.run(instance_id, SERVICES.replace("mkfs.ext4 -q /dev/sdf && mount /dev/sdf /mnt", ""))
    hosts.stop(instance_id, force=True)
    hosts.start(instance_id)
    seen = launch.run(
        instance_id,
        "until grep -c 'second started' /root/log | grep -q 2; do sleep 0.02; done; cat /root/log",
    )
    assert "ended" not in seen.stdout


def test_killing_the_init_kills_everything_in_the_host(hosts: NamespaceHosts, launch: Launcher) -> None:
    instance_id = launch()
    adopted, commanded = f"sleep 4711.{MINE}", f"sleep 4712.{MINE}"
    assert launch.run(instance_id, f"setsid {adopted} > /dev/null 2>&1 &").exit_code == 0
    command = hosts.start_command(instance_id, commanded.split())
    for process in (adopted, commanded):
        launch.await_process(instance_id, process)
        assert _machine_processes(process)

    init = hosts._hosts[instance_id].init_pid
    os.kill(init, signal.SIGKILL)

    assert command.wait(60).exit_code == 137
    eventually(lambda: not hosts.is_up(instance_id))
    assert not [line for line in (adopted, commanded) if _machine_processes(line)]


def test_orphans_are_reaped(launch: Launcher) -> None:
    instance_id = launch()
    launch.run(instance_id, "(sleep 0.1 &) ; (true &)")
    deadline = time.monotonic() + 60
    # `sleep 0.1` while it runs, `[sleep] <defunct>` until somebody asks how it ended.
    while (listed := launch.run(instance_id, "ps -ef").stdout) and time.monotonic() < deadline:
        if "sleep 0.1" not in listed and "defunct" not in listed:
            break
        time.sleep(0.1)
    assert "sleep 0.1" not in listed
    assert "defunct" not in listed


def test_a_command_reports_its_status_and_both_outputs(hosts: NamespaceHosts, launch: Launcher) -> None:
    instance_id = launch()
    script = "echo out $GREETING; echo err >&2; exit 3"
    command = hosts.start_command(instance_id, ["sh", "-c", script], {"GREETING": "hello there"})
    assert command.wait(60) == RunResult(3, "out hello there\n", "err\n")
    command.cancel()
    assert command.wait(60).exit_code == 3
    assert hosts.start_command(instance_id, ["no-such-program"]).wait(60).exit_code == 127
    assert launch.run(instance_id, "kill -TERM $$").exit_code == 128 + signal.SIGTERM


def test_at_the_time_limit_the_command_and_its_children_die_but_an_adopted_daemon_lives(
    hosts: NamespaceHosts, launch: Launcher
) -> None:
    instance_id = launch()
    launch.run(instance_id, "setsid sleep 5000 > /dev/null 2>&1 < /dev/null &")
    script = "echo begun; sleep 5001 & setsid sleep 5002 & sleep 5003"
    command = hosts.start_command(instance_id, ["bash", "-c", script])
    for seconds in (5000, 5001, 5002, 5003):
        launch.await_process(instance_id, f"sleep {seconds}")

    started = time.monotonic()
    result = command.wait(0.5)

    assert (result.exit_code, result.timed_out, result.cancelled) == (None, True, False)
    assert result.stdout == "begun\n"
    assert time.monotonic() - started < 300
    assert launch.run(instance_id, "pgrep -a sleep | grep -o '500.'").stdout.split() == ["5000"]


def test_cancel_kills_the_command_and_its_children(hosts: NamespaceHosts, launch: Launcher) -> None:
    instance_id = launch()
    command = hosts.start_command(instance_id, ["bash", "-c", "sleep 6000 & sleep 6001"])
    for seconds in (6000, 6001):
        launch.await_process(instance_id, f"sleep {seconds}")
    command.cancel()
    result = command.wait(60)
    assert (result.exit_code, result.timed_out, result.cancelled) == (None, False, True)
    assert launch.run(instance_id, "pgrep -a sleep | grep 600").stdout == ""


def test_a_command_that_leaves_a_background_process_on_its_pipes_still_ends(launch: Launcher) -> None:
    instance_id = launch()
    started = time.monotonic()
    result = launch.run(instance_id, "sleep 600 & echo started")
    assert (result.exit_code, result.stdout) == (0, "started\n")
    assert time.monotonic() - started < 300


def test_output_beyond_the_limit_is_dropped_and_counted(launch: Launcher) -> None:
    instance_id = launch()
    result = launch.run(instance_id, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert result.exit_code == 0
    assert len(result.stdout) < 1_100_000
    assert result.stdout.endswith(f"[{3_000_005 - 1024 * 1024} more bytes were not kept]")


def test_launch_refuses_what_cannot_be(hosts: NamespaceHosts, launch: Launcher) -> None:
    launch(1)
    image = built_mysql_image()
    for spec, message in (
        (
            HostSpec(new_instance_id(), "ami-0000000000000dead", address(NETWORK, 9), "x"),
            "ami-0000000000000dead",
        ),
        (HostSpec(new_instance_id(), image, address(NETWORK, 1), "x"), "has address"),
        (HostSpec(new_instance_id(), image, "192.168.1.1", "x"), "not one for hosts"),
        (HostSpec(new_instance_id(), image, "somewhere", "x"), "not an IPv4 address"),
    ):
        with pytest.raises(DataPlaneError, match=message):
            hosts.launch(spec)
    with pytest.raises(DataPlaneError, match="no host"):
        hosts.start_command("i-unknown", ["true"])
    hosts.terminate("i-unknown")


def test_a_namespace_of_someone_else_is_refused_and_left_alone(hosts: NamespaceHosts) -> None:
    instance_id = new_instance_id()
    name = namespace_name(instance_id)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with pytest.raises(DataPlaneError, match=f"{name} already exists"):
            hosts.launch(HostSpec(instance_id, built_mysql_image(), address(NETWORK, 8), "x"))
        assert name in namespaces()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_bridge_or_network_of_someone_else_is_refused(tmp_path: Path, hosts: NamespaceHosts) -> None:
    hosts.prepare_network()
    spec = HostSpec(new_instance_id(), built_mysql_image(), address(NETWORK, 1), "x")
    same_bridge = NamespaceHosts(tmp_path / "a", IMAGES, NETWORK)
    same_network = NamespaceHosts(tmp_path / "b", IMAGES, NetworkPlan(f"{NETWORK.bridge}x", NETWORK.cidr))
    try:
        with pytest.raises(DataPlaneError, match=f"{NETWORK.bridge} already exists"):
            same_bridge.launch(spec)
        with pytest.raises(DataPlaneError, match=f"{NETWORK.cidr} of the local cloud is in use"):
            same_network.launch(spec)
    finally:
        same_bridge.close()
        same_network.close()


def _machine_processes(command_line: str) -> list[str]:
    return subprocess.run(["pgrep", "-f", f"^{command_line}"], capture_output=True, text=True).stdout.split()
