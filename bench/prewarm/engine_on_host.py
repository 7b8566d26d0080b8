"""The prewarm engine on a host of the bench, as on a replica: it sees what is mounted there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from bench.prewarm.cold_volumes import Restored
from bench.prewarm.methods import HOST_PACKAGES, RUN_ID
from localcloud.dataplane import DataPlaneError, RunningCommand, RunResult
from localcloud.hosts import NamespaceHosts

DEVICES = ("/dev/sdf", "/dev/sdg")
MOUNT_POINTS = ("/var/lib/mysql", "/var/lib/mysql-log")
_PLACE = "opt/peaker-bench"
_COMMAND_SECONDS, _ENGINE_SECONDS = 120.0, 3600.0


def install(hosts: NamespaceHosts, instance_id: str) -> None:
    """Put the host package there, as a run does before it makes the volumes (InstallOnReplica)."""
    place = hosts.root(instance_id) / _PLACE
    shutil.copytree(HOST_PACKAGES, place, ignore=shutil.ignore_patterns("__pycache__"))


class EngineOnHost:
    """The engine of one host with the package; data and log volume as they are plugged in at DEVICES."""

    def __init__(self, hosts: NamespaceHosts, instance_id: str, volumes: Sequence[Restored]) -> None:
        self._hosts = hosts
        self._instance_id = instance_id
        self._volumes = volumes
        self._root = hosts.root(instance_id)

    @property
    def progress_path(self) -> Path:
        """Where the engine says how far it is, as this machine sees it."""
        return self._root / "var/lib/peaker/runs" / RUN_ID / "prewarm.json"

    def assemble(self) -> None:
        """The step before the prewarm. Raises DataPlaneError with what the host says."""
        rows = [
            {
                "name": name,
                "volume_id": one.volume_id,
                "device": device,
                "mount_point": point,
                "filesystem": "xfs",
            }
            for name, one, device, point in zip(
                ("data", "log"), self._volumes, DEVICES, MOUNT_POINTS, strict=True
            )
        ]
        done = self._command("assemble_storage", "--volumes", json.dumps(rows)).wait(_COMMAND_SECONDS)
        if done.exit_code != 0:
            raise DataPlaneError(f"assemble_storage: {(done.stderr or done.stdout)[-600:]}")

    def prewarm(self, *arguments: str) -> RunningEngine:
        """The engine, at work until it is done or ended."""
        return RunningEngine(self._command("prewarm", *arguments))

    def _command(self, name: str, *arguments: str) -> RunningCommand:
        argv = ["python3", "-m", "peaker_host", name, "--run-id", RUN_ID, *arguments]
        return self._hosts.start_command(self._instance_id, argv, {"PYTHONPATH": f"/{_PLACE}"})


class RunningEngine:
    """An engine's process on a host."""

    def __init__(self, command: RunningCommand) -> None:
        self._command = command
        self._waiter = ThreadPoolExecutor(1)
        self._result: Future[RunResult] = self._waiter.submit(command.wait, _ENGINE_SECONDS)

    def has_ended(self) -> bool:
        """Whether it has. Raises DataPlaneError where it did not end well."""
        if not self._result.done():
            return False
        found = self._result.result()
        if found.exit_code != 0:
            raise DataPlaneError(
                f"the engine ended with {found.exit_code}: {(found.stderr or found.stdout)[-600:]}"
            )
        return True

    def end(self) -> None:
        """Kill it, if it is still at work."""
        self._command.cancel()
        self._waiter.shutdown()
