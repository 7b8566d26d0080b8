"""coldvol: building it, running it and talking to it."""

from __future__ import annotations

import hashlib
import os
import select
import shlex
import socket
import subprocess
from pathlib import Path

from localcloud.blockstore.layout import PACKAGES, Layout, run
from localcloud.dataplane import DataPlaneError

SOURCE = Path(__file__).with_name("coldvol.c")
BIN_DIR = Path(".localcloud", "bin")
_COMPILER_FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-std=gnu11")
_START_SECONDS = 15.0
_ANSWER_SECONDS = 300.0
"""A snapshot first flushes what is dirty, which on a slow disk takes minutes."""


def build_daemon(bin_dir: Path = BIN_DIR) -> Path:
    """Compile coldvol unless this very source is compiled already. DataPlaneError names missing packages."""
    fingerprint = hashlib.sha256(SOURCE.read_bytes() + " ".join(_COMPILER_FLAGS).encode()).hexdigest()[:12]
    bin_dir = bin_dir.resolve()
    binary = bin_dir / f"coldvol-{fingerprint}"
    if binary.exists():
        return binary
    bin_dir.mkdir(parents=True, exist_ok=True)
    try:
        libraries = shlex.split(run(["pkg-config", "--cflags", "--libs", "fuse3"]))
        unfinished = binary.with_suffix(f".{os.getpid()}")
        run(["gcc", *_COMPILER_FLAGS, str(SOURCE), "-o", str(unfinished), *libraries, "-lpthread", "-lm"])
    except DataPlaneError as error:
        raise DataPlaneError(f"cannot build the volume daemon: {error}. Remedy: {PACKAGES}") from error
    unfinished.rename(binary)
    for old in bin_dir.glob("coldvol-*"):
        if old != binary and "." not in old.name:
            old.unlink(missing_ok=True)
    return binary


class Daemon:
    """A running coldvol; it ends when this process does."""

    def __init__(self, layout: Layout, binary: Path) -> None:
        self._layout = layout
        layout.log.parent.mkdir(parents=True, exist_ok=True)
        with layout.log.open("ab") as log:
            # A session of its own: Ctrl-C on the terminal must not stop the disks before their users.
            self._process = subprocess.Popen(
                [
                    str(binary),
                    *("--pool", str(layout.pool)),
                    *("--mount", str(layout.volumes)),
                    *("--socket", layout.socket.name),
                    *("--parent", str(os.getpid())),
                ],
                cwd=layout.state_dir,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._directory = os.open(layout.state_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._await_ready()

    def ask(self, *words: str) -> str:
        """Send one command; returns the answer after "ok". DataPlaneError carries the daemon's reason."""
        # The state directory may be deeper than the 107 bytes that a socket address can hold.
        address = f"/proc/self/fd/{self._directory}/{self._layout.socket.name}"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_ANSWER_SECONDS)
                connection.connect(address)
                connection.sendall((" ".join(words) + "\n").encode())
                with connection.makefile("r", encoding="utf-8") as stream:
                    status, _, rest = stream.readline().rstrip("\n").partition(" ")
        except OSError as error:
            raise DataPlaneError(
                f"the volume daemon does not answer ({error}); see {self._layout.log}. "
                "Remedy: start the local cloud again"
            ) from error
        if status != "ok":
            raise DataPlaneError(rest or f"the volume daemon broke off {words[0]}; see {self._layout.log}")
        return rest

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """End it. It stops by itself when its mount is gone; otherwise it is told to."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        os.close(self._directory)

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], _START_SECONDS)
        if readable and self._process.stdout.readline() == b"ready\n":
            return
        self.stop()
        raise DataPlaneError(f"the volume daemon did not start; see {self._layout.log}. Remedy: {PACKAGES}")


def running_daemons(layout: Layout) -> list[int]:
    """Process ids of every coldvol that serves this state directory, whoever started it."""
    wanted = str(layout.volumes).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if Path(os.fsdecode(argv[0])).name.startswith("coldvol") and wanted in argv:
            found.append(int(entry.name))
    return found
