"""The processes that functions run in: a fork server per deployment package, warm workers forked from it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO


class WorkerDied(Exception):
    """The function's process ended before it answered."""


class WorkerTimedOut(Exception):
    """The function ran past its timeout."""


@dataclass
class Worker:
    """A warm process of one function."""

    pid: int
    channel: socket.socket
    reader: IO[bytes]
    log_stream: str

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.reader.close()
        self.channel.close()


@dataclass
class ForkServer:
    """The parent process of all workers of one deployment package."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    reader: IO[bytes]
    task_root: Path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def spawn(self, handler: str, environment: dict[str, str], log_stream: str) -> Worker:
        ours, theirs = socket.socketpair()
        spec = {"handler": handler, "environment": environment, "task_root": str(self.task_root)}
        with self.lock:
            socket.send_fds(self.control, [json.dumps(spec).encode()], [theirs.fileno()])
            theirs.close()
            line = self.reader.readline()
        if not line:
            raise WorkerDied("the fork server ended")
        return Worker(json.loads(line)["pid"], ours, ours.makefile("rb"), log_stream)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # workers are in its process group
        self.process.wait()
        self.reader.close()
        self.control.close()
