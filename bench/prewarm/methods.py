"""The ways to warm a device that the bench compares, each as the command an operator would run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.prewarm.cold_volumes import ROOT, STATE, Laboratory, Restored
from localcloud.dataplane import DataPlaneError, VolumeLimits

RUN_ID = "bench-prewarm"
HOST_PACKAGES = ROOT / "host"
USED_ONLY = "used only"
METHODS = ("dd buffered", "dd direct", "fio line", USED_ONLY)


@dataclass(frozen=True)
class Usage:
    """One process from start to end: wall clock and CPU, in seconds."""

    seconds: float
    cpu_seconds: float
    output: str


@dataclass(frozen=True)
class Warming:
    """One method on one cold volume."""

    seconds: float
    bytes_read: int
    blocks_cold_after: int
    cpu_seconds: float
    engine_mib_per_s: float | None


class EngineHost:
    """A host directory of its own per volume, so that several engines run on one machine."""

    def __init__(
        self, volumes: Sequence[Restored], filesystem: str, mount_points: Path = Path("/var/lib")
    ) -> None:
        """Each volume belongs in a folder of `mount_points`, volume0 and on; nothing is mounted here."""
        self.root = STATE / f"host-{volumes[0].volume_id}"
        # A run that was killed left its own.
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "by-id").mkdir(parents=True)
        self._settings = {"state_dir": str(self.root / "state"), "by_id_dir": str(self.root / "by-id")}
        self.configure()
        for volume in volumes:
            serial = volume.volume_id.replace("-", "")
            (self.root / "by-id" / f"nvme-Amazon_Elastic_Block_Store_{serial}").symlink_to(volume.path)
        self._volumes = json.dumps(
            [
                {
                    "name": f"volume{index}",
                    "volume_id": volume.volume_id,
                    "device": "/dev/sdf",
                    "mount_point": f"{mount_points}/volume{index}",
                    "filesystem": filesystem,
                }
                for index, volume in enumerate(volumes)
            ]
        )

    @property
    def progress_path(self) -> Path:
        """Where the engine says how far it is."""
        return self.root / "state" / "runs" / RUN_ID / "prewarm.json"

    def configure(self, **settings: str) -> None:
        """Set fields of host.json besides the two places."""
        self._settings |= settings
        (self.root / "host.json").write_text(json.dumps(self._settings))

    def assemble(self) -> None:
        """The step before the prewarm; not part of what is measured."""
        checked(self.command("assemble_storage", "--volumes", self._volumes))

    def command(self, name: str, *arguments: str) -> list[str]:
        """A command line of the host package for this host."""
        settings = ("--settings", str(self.root / "host.json"))
        return [sys.executable, "-m", "peaker_host", *settings, name, "--run-id", RUN_ID, *arguments]

    def prewarm(self, *arguments: str) -> list[str]:
        """The engine in the foreground."""
        return self.command("prewarm", *arguments)


def checked(command: Sequence[str]) -> Usage:
    """Run to the end and measure; raises DataPlaneError with the output when it fails."""
    usage, code = measured(command)
    if code != 0:
        raise DataPlaneError(f"{' '.join(command)} ended with {code}: {usage.output[-600:]}")
    return usage


def measured(command: Sequence[str]) -> tuple[Usage, int]:
    """Run to the end; wall clock and CPU of the process and its children, and the exit code."""
    started = time.monotonic()
    process = start(command)
    assert process.stdout is not None
    with process.stdout as stream:
        output = stream.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    return Usage(seconds, used.ru_utime + used.ru_stime, output), process.returncode


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start with the host package importable; its output is piped."""
    environment = {**os.environ, "PYTHONPATH": str(HOST_PACKAGES)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def fio_line(path: str) -> list[str]:
    """AWS's line for initialising a volume (EBS user guide)."""
    return [
        *("fio", f"--filename={path}", "--rw=read", "--bs=1M", "--iodepth=32", "--ioengine=libaio"),
        *("--direct=1", "--name=volume-initialize"),
    ]


def command_line(method: str, volume: Restored) -> list[str]:
    """The command of one of the methods that are not the engine."""
    if method == "fio line":
        return fio_line(volume.path)
    around_the_cache = ["iflag=direct"] if method == "dd direct" else []
    return ["dd", f"if={volume.path}", "of=/dev/null", "bs=1M", *around_the_cache]


def warm(
    lab: Laboratory, snapshot_id: str, filesystem: str, method: str, limits: VolumeLimits | None = None
) -> Warming:
    """Restore cold, run the method to its end, count what the device saw; at gp3's baseline without `limits`."""
    with lab.restored(snapshot_id, limits) as volume:
        host: EngineHost | None = None
        command = []
        if method == USED_ONLY:
            host = EngineHost([volume], filesystem)
            lab.give_block_list(host.progress_path, {volume.volume_id: snapshot_id})
            host.assemble()
            command = host.prewarm()
        before = lab.store.stat(volume.volume_id)
        usage = checked(command or command_line(method, volume))
        after = lab.store.stat(volume.volume_id)
        said = result_of(usage.output) if host else {}
        return Warming(
            usage.seconds,
            after.read_bytes - before.read_bytes,
            after.blocks_cold,
            usage.cpu_seconds,
            said.get("rate_mib_per_s"),
        )


def result_of(output: str) -> dict[str, Any]:
    """The result line of a command."""
    answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return answer
