"""Remove what a killed local cloud left: processes, namespaces, links, mounts, devices, files.

Ours is told from what is not by marks that survive a kill: processes carry the state directory in their
environment, links in their alias, mounts and devices lie under it. Nothing of another checkout is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from localcloud import blockstore
from localcloud.blockstore.daemon import running_daemons
from localcloud.blockstore.layout import Layout
from localcloud.blockstore.loop import loops_under
from localcloud.blockstore.mounts import mounts
from localcloud.dataplane import DataPlaneError
from localcloud.hosts.commands import runs, send
from localcloud.hosts.images import remove_replaced_images
from localcloud.hosts.network import (
    disconnect,
    link_alias,
    links,
    namespace_name,
    namespaces,
    owned_links,
    owned_namespaces,
    remove_link,
)
from localcloud.hosts.state_lock import live_server, process_mark

_KILL_LIMIT_SECONDS = 5.0
_HOST_FILES = "instances"
_ENDPOINT_FILES = "read_endpoints"


def clean(state_dir: Path, force: bool = False) -> list[str]:
    """Remove everything a local cloud left, but for images and snapshots; says what, one phrase each.

    Raises DataPlaneError while a server runs there; with force, that server is killed first.
    """
    state = state_dir.resolve()
    removed = _stop_live_server(state, force)
    processes = marked_processes(state)
    for pid in processes:
        send(pid, signal.SIGKILL)
    # Before waiting: a process may hang in a read that only the end of its volume's daemon ends.
    removed += [f"process {pid} ({name})" for pid, name in processes.items()]
    removed += blockstore.cleanup(state)
    _await_end(processes)
    for name in _namespaces(state):
        disconnect(name)
        removed.append(f"network namespace {name}")
    for name in sorted(owned_links(state)):
        remove_link(name)
        removed.append(f"link {name}")
    for point in _mounts(state):
        subprocess.run(["umount", "--lazy", point], check=True, capture_output=True)
        removed.append(f"mount {point}")
    for directory in _directories(state):
        shutil.rmtree(directory)
        removed.append(str(directory))
    return removed + remove_replaced_images(state / "images")


def leftovers(state_dir: Path) -> list[str]:
    """What clean() would remove, one phrase each; empty when there is nothing."""
    state = state_dir.resolve()
    found = [f"process {pid} ({name})" for pid, name in marked_processes(state).items()]
    found += [f"volume daemon {pid}" for pid in running_daemons(Layout(state))]
    found += [f"network namespace {name}" for name in _namespaces(state)]
    found += [f"link {name}" for name in sorted(owned_links(state))]
    found += [f"mount {point}" for point in _mounts(state)]
    found += [f"loop device {device} of {file}" for device, file in loops_under(state)]
    return found + [str(directory) for directory in _directories(state)]


def marked_processes(state_dir: Path) -> dict[int, str]:
    """Processes that carry our mark, by number, with their command names; not this one or its ancestors."""
    (entry,) = (f"{key}={value}".encode() for key, value in process_mark(state_dir).items())
    spared = _ancestry()
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) in spared:
            continue
        try:
            if entry in (directory / "environ").read_bytes().split(b"\0"):
                found[int(directory.name)] = (directory / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def _stop_live_server(state: Path, force: bool) -> list[str]:
    server = live_server(state)
    if server is None:
        return []
    if not force or server == os.getpid():
        raise DataPlaneError(f"a local cloud runs in {state} (process {server}): stop it first")
    os.kill(server, signal.SIGKILL)
    _await_end([server])
    return [f"server {server}"]


def _await_end(pids: Iterable[int]) -> None:
    deadline = time.monotonic() + _KILL_LIMIT_SECONDS
    waiting = set(pids)
    while waiting:
        waiting = {pid for pid in waiting if runs(pid)}
        if waiting and time.monotonic() > deadline:
            raise DataPlaneError(f"processes {sorted(waiting)} of the local cloud do not die")
        time.sleep(0.01)


def _ancestry() -> set[int]:
    pid, found = os.getpid(), set()
    while pid > 0:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def _namespaces(state: Path) -> list[str]:
    """Ours by the mark on their interface; or by the host's files, when it died before it was marked."""
    found = owned_namespaces(state)
    existing = namespaces()
    for directory in _subdirectories(state / _HOST_FILES):
        name = namespace_name(directory.name)
        mark = links(name).get("eth0", {}).get("ifalias") if name in existing else None
        if name in existing and mark in (None, link_alias(state)):
            found.add(name)
    return sorted(found)


def _mounts(state: Path) -> list[str]:
    """Mount points under the state directory, the last made first."""
    points = [one.mount_point for one in reversed(mounts())]
    return [point for point in points if point.startswith(f"{state}/")]


def _directories(state: Path) -> list[Path]:
    """Files of hosts and endpoints that are no more."""
    return [*_subdirectories(state / _HOST_FILES), *_subdirectories(state / _ENDPOINT_FILES)]


def _subdirectories(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else []
