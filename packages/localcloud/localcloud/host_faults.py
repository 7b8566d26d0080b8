"""Break a host of the local cloud, and mend it: for benches and tests, from the machine that it runs on.

Each fault is a context manager that takes an EC2 instance id: entering breaks, leaving mends, also after an
error. They go past SSM and the network, so that they work on a host that neither answers. Needs root.

    with host_faults.network_cut(replica_id):
        ...

`kill_host` alone has no way back here: EC2 has (reboot_instances, or stop_instances and start_instances).
Faults of replication speak MySQL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localcloud.dataplane import DataPlaneError
from localcloud.hosts.commands import HostCommand
from localcloud.hosts.instances import HOST_ENVIRONMENT
from localcloud.hosts.network import NETNS_DIRECTORY, links, namespace_name

DATA_MOUNT, LOG_MOUNT = "/var/lib/mysql", "/var/lib/mysql-log"
_FILLER = ".filled-by-a-fault"
_SCRIPT_LIMIT_SECONDS = 60.0
_SETTLE_SECONDS = 15.0
_MYSQL = ["mysql", "--user=root", "--socket=/run/mysqld/mysqld.sock", "-NBe"]
_APPLIER = "SELECT SERVICE_STATE FROM performance_schema.replication_applier_status"
_APPLIER_SESSION = (
    "SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE NAME = 'thread/sql/replica_sql'"
)


# -- the host as a whole -------------------------------------------------------------------------------------


def kill_host(instance_id: str) -> None:
    """SIGKILL everything on the host at once, as when its machine loses power. EC2 still says `running`."""
    os.kill(init_pid(instance_id), signal.SIGKILL)
    _until(lambda: not _is_up(instance_id), f"{instance_id} does not die")


@contextmanager
def network_cut(instance_id: str) -> Iterator[None]:
    """No packet reaches or leaves the host; nobody is told, connections hang. Addresses and routes stay."""
    link = namespace_name(instance_id)
    _ip("link", "set", "dev", link, "down")
    try:
        yield
    finally:
        if link in links():  # the host may have been terminated meanwhile
            _ip("link", "set", "dev", link, "up")


@contextmanager
def filesystem_full(
    instance_id: str, mount_point: str = LOG_MOUNT, *, leave_bytes: int = 0
) -> Iterator[None]:
    """Fill a filesystem of the host up to `leave_bytes`. Space is only reserved: little is written."""
    filler = f"{mount_point}/{_FILLER}"
    run_on_host(
        instance_id,
        f"free=$(($(stat -f -c '%a * %S' {mount_point}) - {leave_bytes})); test $free -gt 0\n"
        # Metadata takes a part of what is free: fall back to ever less until it fits, then fill the rest.
        f"fallocate -l $free {filler} 2>/dev/null || fallocate -l $((free * 98 / 100)) {filler}\n"
        + ("" if leave_bytes else f"cat /dev/zero >>{filler} 2>/dev/null || true\n"),
    )
    try:
        yield
    finally:
        _mend(instance_id, f"rm -f {filler}")


# -- mysqld --------------------------------------------------------------------------------------------------


@contextmanager
def mysqld_killed(instance_id: str, service: str = "mysql") -> Iterator[None]:
    """SIGKILL mysqld; leaving starts its service again."""
    run_on_host(instance_id, "pkill -KILL -x mysqld")
    try:
        yield
    finally:
        _mend(instance_id, f"systemctl start {service}")


@contextmanager
def mysqld_frozen(instance_id: str) -> Iterator[None]:
    """SIGSTOP mysqld: its port accepts connections and nothing answers."""
    run_on_host(instance_id, "pkill -STOP -x mysqld")
    try:
        yield
    finally:
        _mend(instance_id, "pkill -CONT -x mysqld")


@contextmanager
def replication_broken(instance_id: str) -> Iterator[None]:
    """The applier is killed: it runs no more, while the receiver goes on. Leaving starts it.

    Raises DataPlaneError when no applier runs.
    """
    applier = query_on_host(instance_id, _APPLIER_SESSION).strip()
    try:
        query_on_host(instance_id, f"KILL {applier}")
        _until(
            lambda: query_on_host(instance_id, _APPLIER).strip() == "OFF",
            f"the applier of {instance_id} does not stop",
        )
        yield
    finally:
        _mend_query(instance_id, "START REPLICA SQL_THREAD")


@contextmanager
def replication_delayed(instance_id: str, seconds: int = 3600) -> Iterator[None]:
    """The applier runs and stays this many seconds behind (SOURCE_DELAY). Leaving lets it catch up."""
    _set_delay(instance_id, seconds)
    try:
        yield
    finally:
        if _is_up(instance_id):
            _set_delay(instance_id, 0)


@contextmanager
def applier_stalled(instance_id: str) -> Iterator[None]:
    """Another session holds FLUSH TABLES WITH READ LOCK: reads go on, both replication threads run, and the
    applier waits; the lag grows with the time."""
    holder = _command(
        instance_id, [*_MYSQL, "FLUSH TABLES WITH READ LOCK; SELECT 'held'; SELECT SLEEP(86400)"]
    )
    held = "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT SLEEP(86400)%'"
    try:
        _until(lambda: query_on_host(instance_id, held).strip() != "0", f"{instance_id} does not lock")
        yield
    finally:
        holder.cancel()
        if _is_up(instance_id):
            # The server notices the end of a sleeping client late.
            ids = query_on_host(instance_id, held.replace("COUNT(*)", "ID")).split()
            for session in ids:
                query_on_host(instance_id, f"KILL {session}")


def _set_delay(instance_id: str, seconds: int) -> None:
    query_on_host(
        instance_id,
        f"STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds};"
        " START REPLICA SQL_THREAD",
    )


# -- how to get there ----------------------------------------------------------------------------------------


def init_pid(instance_id: str) -> int:
    """This machine's number of the host's process 1. Raises DataPlaneError when the host is not up."""
    namespace = NETNS_DIRECTORY / namespace_name(instance_id)
    if namespace.exists():
        network = f"net:[{namespace.stat().st_ino}]"
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and _is_init(process, network):
                return int(process.name)
    raise DataPlaneError(f"{instance_id} is not up on this machine")


def run_on_host(instance_id: str, script: str) -> str:
    """Run a shell script as root on the host; its output. Raises DataPlaneError with what it said."""
    result = _command(instance_id, ["bash", "-euc", script]).wait(_SCRIPT_LIMIT_SECONDS)
    if result.exit_code != 0:
        raise DataPlaneError(f"{instance_id}: `{script}` ended {result.exit_code}: {result.stderr.strip()}")
    return result.stdout


def query_on_host(instance_id: str, statements: str) -> str:
    """Statements on the host's MySQL as its administrator; rows, one a line."""
    result = _command(instance_id, [*_MYSQL, statements]).wait(_SCRIPT_LIMIT_SECONDS)
    if result.exit_code != 0:
        raise DataPlaneError(f"{instance_id}: `{statements}`: {result.stderr.strip()}")
    return result.stdout


def _command(instance_id: str, argv: list[str]) -> HostCommand:
    return HostCommand(init_pid(instance_id), argv, HOST_ENVIRONMENT)


def _is_init(process: Path, network: str) -> bool:
    try:
        if os.readlink(process / "ns" / "net") != network:
            return False
        status = (process / "status").read_text()
    except OSError:
        return False  # it has just ended
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def _is_up(instance_id: str) -> bool:
    try:
        init_pid(instance_id)
    except DataPlaneError:
        return False
    return True


def _mend(instance_id: str, script: str) -> None:
    """A host that is gone needs no mending."""
    if _is_up(instance_id):
        run_on_host(instance_id, script)


def _mend_query(instance_id: str, statements: str) -> None:
    if _is_up(instance_id):
        query_on_host(instance_id, statements)


def _until(condition: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise DataPlaneError(f"{failure} within {_SETTLE_SECONDS:.0f} s")
        time.sleep(0.05)


def _ip(*arguments: str) -> None:
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise DataPlaneError(f"the machine refused `ip {' '.join(arguments)}`: {result.stderr.strip()}")
