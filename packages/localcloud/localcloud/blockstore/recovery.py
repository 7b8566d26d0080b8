"""Finding and removing what a block store left when it was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from localcloud.blockstore.daemon import running_daemons
from localcloud.blockstore.layout import Layout
from localcloud.blockstore.loop import backing_file, detach_loop, loops_of, loops_under, wait_until_free
from localcloud.blockstore.mounts import Mount, abort_fuse, mounts, unmount
from localcloud.dataplane import DataPlaneError

_RELEASE_SECONDS = 5.0
_held_locks: set[int] = set()


def _leave_locks_to_parent() -> None:
    for descriptor in _held_locks:
        os.close(descriptor)
    _held_locks.clear()


# A worker forked off without exec must not keep the directory locked when its parent is killed.
os.register_at_fork(after_in_child=_leave_locks_to_parent)


def cleanup(state_dir: Path) -> list[str]:
    """Remove the loop devices, mounts and daemon that a killed store left under state_dir.

    Returns what was removed, one phrase each. Snapshots stay. Raises DataPlaneError while a live process
    uses the state directory.
    """
    layout = Layout(state_dir)
    if not layout.state_dir.is_dir():
        return []
    descriptor = take_state_lock(layout)
    try:
        return remove_leftovers(layout)
    finally:
        give_state_lock(descriptor)


def take_state_lock(layout: Layout) -> int:
    """Lock the state directory, until give_state_lock gets the descriptor or this process dies."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32).decode().strip() or "unknown"
        os.close(descriptor)
        raise DataPlaneError(
            f"{layout.state_dir} is in use by process {holder}. "
            "Remedy: stop that local cloud, or use another state directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    _held_locks.add(descriptor)
    return descriptor


def give_state_lock(descriptor: int) -> None:
    """Unlock the state directory."""
    _held_locks.discard(descriptor)
    os.close(descriptor)


def remove_leftovers(layout: Layout) -> list[str]:
    """As cleanup(), for the holder of the lock."""
    removed: list[str] = []
    # The daemon first: then requests that wait for it end with an error, and nothing below can hang.
    removed += [f"daemon {pid}" for pid in _kill_daemons(layout)]
    volumes = dict(loops_under(layout.volumes))
    removed += _unmount(lambda mount: mount.source in volumes)
    removed += release_loops(volumes)
    removed += _unmount(lambda mount: mount.mount_point == str(layout.volumes))
    removed += release_pool(layout)
    layout.socket.unlink(missing_ok=True)
    return removed


def release_loops(devices: dict[str, str]) -> list[str]:
    """Detach loop devices (path to backing file), waiting a little for the kernel to give them back.

    One that has another file by now is somebody else's: it ended with its last user, and was free to take.
    """
    for device, file in devices.items():
        if backing_file(device) == file:
            detach_loop(device)
    held = wait_until_free(devices, _RELEASE_SECONDS)
    return [
        f"{device} of {file}" + (" (in use: ends with its last user)" if device in held else "")
        for device, file in devices.items()
    ]


def release_pool(layout: Layout) -> list[str]:
    """Unmount the pool and give its loop device back."""
    removed = _unmount(lambda mount: mount.mount_point == str(layout.pool))
    return removed + release_loops({device: str(layout.pool_image) for device in loops_of(layout.pool_image)})


def _kill_daemons(layout: Layout) -> list[int]:
    killed = running_daemons(layout)
    for pid in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _RELEASE_SECONDS
    while set(running_daemons(layout)) & set(killed):
        if time.monotonic() > deadline:
            # It waits inside the kernel for its own mount: the abort below ends that.
            break
        time.sleep(0.02)
    return killed


def _unmount(which: Callable[[Mount], bool]) -> list[str]:
    removed = []
    for mount in filter(which, reversed(mounts())):
        if mount.filesystem.startswith("fuse"):
            abort_fuse(mount.device)
        unmount(mount.mount_point)
        removed.append(f"mount {mount.mount_point}")
    return removed
