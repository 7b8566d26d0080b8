"""A machine with a kernel that has md and the device mapper: QEMU without acceleration, EBS volumes as NVMe devices.

The kernel of the machine that runs the tests may have neither, and is shared. Volumes are sparse files; a snapshot
stops the machine's processors, copies all files, and lets it go on: one instant for all, in the midst of writes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "build" / "storage-machine"
BOOT_SECONDS = 600.0
ANSWER_SECONDS = 600.0


@dataclass(frozen=True)
class Disk:
    """An EBS volume: its id, and the file with its bytes."""

    volume_id: str
    path: Path

    def copy(self, volume_id: str, folder: Path) -> Disk:
        """The same bytes as another volume."""
        target = folder / f"{volume_id}.img"
        subprocess.run(["cp", "--sparse=always", str(self.path), str(target)], check=True)
        return Disk(volume_id, target)


def new_disk(folder: Path, number: int, mib: int) -> Disk:
    """An empty volume."""
    disk = Disk(f"vol-0d0{number:014x}", folder / f"disk{number}.img")
    with disk.path.open("wb") as file:
        file.truncate(mib * 1024 * 1024)
    return disk


@dataclass(frozen=True)
class Answer:
    """How a program in the machine ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The result line of a host command."""
        lines = self.out.strip().splitlines()
        assert lines, self.err
        found: dict[str, Any] = json.loads(lines[-1])
        return found


class Machine:
    """A running machine."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._line = _connected(folder / "agent.sock", process)
        self._pending = b""
        self._monitor = _connected(folder / "monitor.sock", process)
        self._said = b""
        self._order("qmp_capabilities")
        assert self._next_line(time.monotonic() + BOOT_SECONDS) == b"ready"

    def run(self, program: str, check: bool = True, seconds: float = ANSWER_SECONDS) -> Answer:
        """Run a program of the shell in the machine."""
        text = base64.b64encode(program.encode()).decode()
        return self._asked({"program": text}, program, check, seconds)

    def call(self, *call: str, settings: str = "", check: bool = True) -> Answer:
        """Run `peaker`, `order` or `workload` with these arguments."""
        return self._asked({"call": call, "settings": settings}, " ".join(call), check, ANSWER_SECONDS)

    def _asked(self, request: dict[str, Any], shown: str, check: bool, seconds: float) -> Answer:
        began = time.monotonic()
        self._line.sendall(json.dumps(request).encode() + b"\n")
        answer = Answer(**json.loads(self._next_line(began + seconds)))
        print(f"{time.monotonic() - began:6.1f} s  {shown[:150]}", flush=True)
        assert not check or answer.code == 0, f"{shown}\n{answer.out}\n{answer.err}"
        return answer

    def snapshot(self, disks: Sequence[Disk], folder: Path) -> list[Disk]:
        """All volumes at one instant, while the machine is at work."""
        self._order("stop")
        try:
            return [disk.copy(disk.volume_id, folder) for disk in disks]
        finally:
            self._order("cont")

    def _order(self, command: str) -> None:
        self._monitor.sendall(json.dumps({"execute": command}).encode() + b"\n")
        while True:
            while b"\n" not in self._said:
                self._said += self._monitor.recv(65536)
            line, _, self._said = self._said.partition(b"\n")
            if "return" in json.loads(line):
                return

    def _next_line(self, deadline: float) -> bytes:
        while b"\n" not in self._pending:
            self._line.settimeout(max(0.1, deadline - time.monotonic()))
            self._pending += self._line.recv(65536)
        line, _, self._pending = self._pending.partition(b"\n")
        return line.strip()


@contextlib.contextmanager
def machine(folder: Path, disks: Sequence[Disk]) -> Iterator[Machine]:
    """Boot with the volumes attached in this order; it is switched off in the end."""
    folder.mkdir()
    code = folder / "code.img"
    code_image(code)
    drives = [
        *("-drive", f"file={IMAGE / 'root.img'},if=virtio,format=raw,snapshot=on"),
        *("-drive", f"file={code},if=virtio,format=raw"),
    ]
    for number, disk in enumerate(disks):
        drives += ["-drive", f"file={disk.path},if=none,id=d{number},format=raw,discard=unmap"]
        drives += ["-device", f"nvme,drive=d{number},serial={disk.volume_id.replace('-', '')}"]
    console = folder / "console.log"
    command = [
        "qemu-system-x86_64",
        *("-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1", "-m", "1024"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(IMAGE / "vmlinuz"), "-initrd", str(IMAGE / "initrd.gz")),
        *("-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off no_timer_check nowatchdog"),
        *("-serial", f"file:{console}", "-serial", f"unix:{folder / 'agent.sock'},server=on,wait=off"),
        *("-qmp", f"unix:{folder / 'monitor.sock'},server=on,wait=off"),
        *drives,
    ]
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Machine(process, folder)
        except BaseException:
            print((folder / "qemu.log").read_text()[-2000:], console.read_text(errors="replace")[-3000:])
            raise
        finally:
            process.kill()
            process.wait()


def code_image(path: Path) -> None:
    """The host package and the tests' own programs as a filesystem."""
    staging = path.with_suffix(".files")
    shutil.copytree(ROOT / "host" / "peaker_host", staging / "peaker_host", ignore=_no_caches)
    shutil.copytree(ROOT / "tests" / "storage", staging / "tests" / "storage", ignore=_no_caches)
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(staging), str(path), "16M"], check=True
    )
    shutil.rmtree(staging)


_no_caches = shutil.ignore_patterns("__pycache__")


def _connected(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    deadline = time.monotonic() + BOOT_SECONDS
    made = socket.socket(socket.AF_UNIX)
    while True:
        try:
            # The folder's own name may be too long for a socket's address.
            here = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                made.connect(f"/proc/self/fd/{here}/{path.name}")
            finally:
                os.close(here)
            return made
        except OSError:
            assert process.poll() is None, "the machine ended"
            assert time.monotonic() < deadline, f"{path} does not answer"
            time.sleep(0.05)
