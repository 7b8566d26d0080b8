"""Faults on hosts: each breaks what it says, and is mended afterwards. Two hosts with MySQL, one following."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from localcloud import host_faults
from localcloud.dataplane import BlockDevice, DataPlaneError, HostSpec
from localcloud.hosts import NamespaceHosts

pytestmark = pytest.mark.real

NETWORK = own_network(3)
SOURCE_ADDRESS, REPLICA_ADDRESS = address(NETWORK, 1), address(NETWORK, 2)
THREADS = """
SELECT CONCAT(c.SERVICE_STATE, ' ', a.SERVICE_STATE)
FROM performance_schema.replication_connection_status c, performance_schema.replication_applier_status a
"""


@dataclass
class Pair:
    """A source and its replica."""

    hosts: NamespaceHosts
    source: str
    replica: str

    def write(self) -> int:
        """Write a row on the source; its number."""
        host_faults.query_on_host(self.source, "INSERT INTO test.rows_written VALUES ()")
        return int(host_faults.query_on_host(self.source, "SELECT MAX(id) FROM test.rows_written"))

    def has(self, row: int) -> bool:
        found = host_faults.query_on_host(
            self.replica, f"SELECT COUNT(*) FROM test.rows_written WHERE id={row}"
        )
        return found.strip() == "1"

    def threads(self) -> str:
        """Receiver and applier: ON or OFF."""
        return host_faults.query_on_host(self.replica, THREADS).strip()

    def follows(self) -> bool:
        """A row that is written now arrives."""
        row = self.write()
        until(lambda: self.has(row))
        return True


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def answers(timeout_seconds: float = 1.0) -> bool:
    """The replica's MySQL greets a client."""
    try:
        with socket.create_connection((REPLICA_ADDRESS, 3306), timeout_seconds) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    image = built_mysql_image()
    hosts = NamespaceHosts(tmp_path_factory.mktemp("state"), IMAGES, NETWORK)
    patch = pytest.MonkeyPatch()
    # Making a MySQL of a busy machine, and starting one, takes it longer than who breaks and mends will wait.
    patch.setattr(host_faults, "_SCRIPT_LIMIT_SECONDS", 600.0)
    patch.setattr(host_faults, "_SETTLE_SECONDS", 240.0)
    try:
        made = Pair(hosts, new_instance_id(), new_instance_id())
        for number, instance_id in enumerate((made.source, made.replica), 1):
            hosts.launch(HostSpec(instance_id, image, address(NETWORK, number), f"ip-{number}"))
            host_faults.run_on_host(
                instance_id,
                f"printf '[mysqld]\\nserver_id={number}\\n' >/etc/mysql/conf.d/id.cnf\n"
                "mysqld --initialize-insecure && systemctl start mysql\n",
            )
        host_faults.query_on_host(
            made.source,
            "SET GLOBAL super_read_only=0; SET GLOBAL read_only=0; CREATE DATABASE test;"
            " CREATE TABLE test.rows_written (id INT AUTO_INCREMENT PRIMARY KEY);"
            " CREATE USER follower IDENTIFIED BY 'f'; GRANT REPLICATION SLAVE ON *.* TO follower",
        )
        host_faults.query_on_host(
            made.replica,
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{SOURCE_ADDRESS}', SOURCE_USER='follower',"
            " SOURCE_PASSWORD='f', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1,"
            " SOURCE_CONNECT_RETRY=1; START REPLICA",
        )
        until(lambda: made.threads() == "ON ON")
        yield made
    finally:
        patch.undo()
        hosts.close()


# In a network namespace made without a /sys of its own, as somebody keeps a demonstration apart.
CUT_AND_MEND = """
import subprocess
from localcloud import host_faults
from localcloud.hosts.network import namespace_name
link = namespace_name("i-0123456789abcdef0")
subprocess.run(["ip", "link", "add", link, "type", "veth", "peer", "name", "other"], check=True)
with host_faults.network_cut("i-0123456789abcdef0"):
    pass
print(subprocess.run(["ip", "-br", "link", "show", "dev", link], capture_output=True, text=True, check=True).stdout)
"""


def test_a_cut_network_comes_back_where_sys_is_that_of_another_namespace() -> None:
    command = ["unshare", "--net", sys.executable, "-c", CUT_AND_MEND]
    shown = subprocess.run(command, env=with_this_package(), capture_output=True, text=True, check=True)
    assert ",UP" in shown.stdout


def test_a_cut_network_hangs_and_comes_back(pair: Pair) -> None:
    with host_faults.network_cut(pair.replica):
        started = time.monotonic()
        assert not answers(0.5)
        assert time.monotonic() - started >= 0.5  # no refusal: nothing answers at all
        assert pair.hosts.is_up(pair.replica)
    until(answers)
    assert pair.follows()


def test_a_full_filesystem_takes_no_byte_and_is_emptied(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "volume.raw"
    with file.open("wb") as volume:
        volume.truncate(64 * 1024 * 1024)
    losetup = ["losetup", "--find", "--show", str(file)]
    path = subprocess.run(losetup, capture_output=True, text=True, check=True).stdout.strip()
    try:
        major, minor = (int(n) for n in Path(f"/sys/block/{Path(path).name}/dev").read_text().split(":"))
        pair.hosts.plug(pair.replica, "/dev/sdf", "vol-0123456789abcdef0", BlockDevice(path, major, minor))
        host_faults.run_on_host(
            pair.replica, "mkfs.xfs -q -m crc=0 /dev/sdf 2>/dev/null || mkfs.ext4 -q /dev/sdf"
        )
        host_faults.run_on_host(pair.replica, "mount /dev/sdf /mnt")
        write = "head -c 4000000 /dev/zero >/mnt/file"
        with (
            host_faults.filesystem_full(pair.replica, "/mnt"),
            pytest.raises(DataPlaneError, match="No space left"),
        ):
            host_faults.run_on_host(pair.replica, write)
        with host_faults.filesystem_full(pair.replica, "/mnt", leave_bytes=8 << 20):
            host_faults.run_on_host(pair.replica, write)
            free = int(host_faults.run_on_host(pair.replica, "stat -f -c '%a * %S' /mnt | xargs expr"))
            assert free < 8 << 20
        host_faults.run_on_host(pair.replica, f"{write}; test ! -e /mnt/.filled-by-a-fault; umount /mnt")
        pair.hosts.unplug(pair.replica, "vol-0123456789abcdef0")
    finally:
        subprocess.run(["losetup", "--detach", path], check=True)


def test_broken_replication_has_a_receiver_and_no_applier(pair: Pair) -> None:
    with host_faults.replication_broken(pair.replica):
        assert pair.threads() == "ON OFF"
        row = pair.write()
        time.sleep(1)
        assert not pair.has(row)
    until(lambda: pair.has(row))
    assert pair.threads() == "ON ON"


def test_a_delayed_applier_runs_and_lags(pair: Pair) -> None:
    with host_faults.replication_delayed(pair.replica, 3600):
        row = pair.write()
        time.sleep(1)
        assert pair.threads() == "ON ON"
        assert not pair.has(row)
    until(lambda: pair.has(row))


def test_a_stalled_applier_runs_and_lags_while_reads_go_on(pair: Pair) -> None:
    with host_faults.applier_stalled(pair.replica):
        row = pair.write()
        time.sleep(1)
        assert pair.threads() == "ON ON"
        assert not pair.has(row)
    until(lambda: pair.has(row))
    sessions = "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT SLEEP(86400)%'"
    assert host_faults.query_on_host(pair.replica, sessions).strip() == "0"


def test_a_frozen_mysqld_accepts_and_does_not_answer(pair: Pair) -> None:
    with host_faults.mysqld_frozen(pair.replica):
        with socket.create_connection((REPLICA_ADDRESS, 3306), 60):
            pass  # the kernel accepts
        assert not answers(0.5)
    until(answers)
    assert pair.follows()


def test_a_killed_mysqld_is_started_again(pair: Pair) -> None:
    with host_faults.mysqld_killed(pair.replica):
        until(lambda: not answers(0.5))
        assert pair.hosts.is_up(pair.replica)
    assert answers(60)
    host_faults.query_on_host(pair.replica, "START REPLICA")  # the image skips it at start
    assert pair.follows()


def test_a_fault_is_mended_after_an_error_and_needs_no_mending_on_a_dead_host(pair: Pair) -> None:
    with pytest.raises(ZeroDivisionError), host_faults.network_cut(pair.replica):
        _ = 1 / 0
    until(answers)
    with host_faults.mysqld_frozen(pair.replica), host_faults.network_cut(pair.replica):
        host_faults.kill_host(pair.replica)
    until(lambda: not pair.hosts.is_up(pair.replica))
    with pytest.raises(DataPlaneError, match="not up"):
        host_faults.kill_host(pair.replica)
    pair.hosts.start(pair.replica)
    host_faults.run_on_host(pair.replica, "systemctl start mysql")
    host_faults.query_on_host(pair.replica, "START REPLICA")
    assert pair.follows()
