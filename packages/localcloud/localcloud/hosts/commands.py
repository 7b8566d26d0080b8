"""Commands on a host: started in its namespaces, watched from outside, killed as a whole."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.dataplane import RunResult

OUTPUT_LIMIT_BYTES = 1024 * 1024
# A background child may keep the pipes open for ever; what was written before the end has arrived by then.
_DRAIN_SECONDS = 0.2
_LEADER_SECONDS = 2.0


class HostCommand:
    """A running command (localcloud.dataplane.RunningCommand)."""

    def __init__(self, init_pid: int, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [
                "/usr/bin/nsenter",
                f"--target={init_pid}",
                *("--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"),
                *argv,
            ],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._ended = threading.Event()
        self._stop_lock = threading.Lock()
        self._timed_out = False
        self._cancelled = False
        self._stdout = _BoundedOutput()
        self._stderr = _BoundedOutput()
        threading.Thread(target=self._watch, name=f"host-command-{self._process.pid}", daemon=True).start()

    def wait(self, timeout_seconds: float | None = None) -> RunResult:
        """Wait for the end; past the limit (counted from this call) it is killed with its children."""
        if not self._ended.wait(timeout_seconds):
            self._stop(timed_out=True)
            self._ended.wait()
        stopped = self._timed_out or self._cancelled
        return RunResult(
            exit_code=None if stopped else _shell_status(self._process.returncode),
            stdout=self._stdout.text(),
            stderr=self._stderr.text(),
            timed_out=self._timed_out,
            cancelled=self._cancelled,
        )

    def cancel(self) -> None:
        """Kill the command and its children. After its end this does nothing."""
        self._stop(timed_out=False)

    def has_ended(self) -> bool:
        """True when wait() would return at once."""
        return self._ended.is_set()

    def await_end(self, seconds: float) -> bool:
        """Wait for the end without killing; False when it did not come."""
        return self._ended.wait(seconds)

    def _stop(self, timed_out: bool) -> None:
        with self._stop_lock:
            if self._ended.is_set() or self._timed_out or self._cancelled:
                return
            self._timed_out, self._cancelled = timed_out, not timed_out
            kill_session(self._process.pid)

    def _watch(self) -> None:
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        pidfd = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(stdout, selectors.EVENT_READ, self._stdout)
                selector.register(stderr, selectors.EVENT_READ, self._stderr)
                selector.register(pidfd, selectors.EVENT_READ, None)
                self._collect(selector)
        finally:
            os.close(pidfd)
            stdout.close()
            stderr.close()
        with self._stop_lock:
            self._process.wait()
            self._ended.set()

    def _collect(self, selector: selectors.BaseSelector) -> None:
        """Read until both pipes are closed, or until a moment after the command's end."""
        deadline: float | None = None
        open_pipes = 2
        while deadline is None or (open_pipes and time.monotonic() < deadline):
            for key, _events in selector.select(None if deadline is None else _DRAIN_SECONDS):
                if key.data is None:
                    deadline = time.monotonic() + _DRAIN_SECONDS
                    selector.unregister(key.fileobj)
                elif not _read_into(key.fd, key.data):
                    selector.unregister(key.fileobj)
                    open_pipes -= 1


class _BoundedOutput:
    """The first OUTPUT_LIMIT_BYTES of a stream; the rest is read and dropped, so that the writer goes on."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept = 0
        self._dropped = 0

    def add(self, part: bytes) -> None:
        kept = part[: OUTPUT_LIMIT_BYTES - self._kept]
        self._kept += len(kept)
        self._dropped += len(part) - len(kept)
        if kept:
            self._parts.append(kept)

    def text(self) -> str:
        note = f"\n[{self._dropped} more bytes were not kept]" if self._dropped else ""
        return b"".join(self._parts).decode("utf-8", errors="replace") + note


def _read_into(descriptor: int, output: _BoundedOutput) -> bool:
    part = os.read(descriptor, 65536)
    output.add(part)
    return bool(part)


def _shell_status(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


def kill_session(leader_pid: int) -> None:
    """SIGKILL the session and all descendants of nsenter (the leader), which then ends by itself.

    nsenter must bury its child: were it dead, the child would stay a zombie of the host until the machine's
    own process 1 looks. All are stopped first, so that none forks unseen. A daemon that left the session and
    was adopted by the host's init is not among them, as on a real host.
    """
    seen = {leader_pid}
    while members := _session_and_descendants(leader_pid) - seen:
        for pid in members:
            send(pid, signal.SIGSTOP)
        seen |= members
    for pid in seen - {leader_pid}:
        send(pid, signal.SIGKILL)
    deadline = time.monotonic() + _LEADER_SECONDS
    while runs(leader_pid):
        # It may have stopped itself with its child.
        send(leader_pid, signal.SIGCONT if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """False for a zombie: it holds nothing, and only its parent can bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _session_and_descendants(leader_pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    members = {leader_pid}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent, session = fields[0], int(fields[1]), int(fields[3])
        if state in "ZX":
            continue
        children.setdefault(parent, []).append(int(entry.name))
        if session == leader_pid:
            members.add(int(entry.name))
    queue = list(members)
    while queue:
        for child in children.get(queue.pop(), []):
            if child not in members:
                members.add(child)
                queue.append(child)
    return members


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that has ended is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
