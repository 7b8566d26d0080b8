"""The local cloud as a program of its own, as demo and bench use it: started, asked for its clock, stopped."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lab.base_preparation import PrepareBase, by_command
from localcloud.hosts.state_lock import live_server

START_LIMIT_SECONDS = 90
STOP_LIMIT_SECONDS = 60
EARLIER_LIMIT_SECONDS = 30
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class LocalCloudFailed(Exception):
    """The local cloud did not start or answer; the message holds what it printed."""


def ask(endpoint_url: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """GET, or POST a body to, an endpoint under /_peaker/. Raises LocalCloudFailed, and OSError without an answer."""
    data = None if body is None else json.dumps(dict(body)).encode()
    try:
        with urllib.request.urlopen(f"{endpoint_url}/_peaker/{path}", data, timeout=60) as answer:
            document: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        raise LocalCloudFailed(f"/_peaker/{path}: {error.read().decode()}") from error
    return document


@dataclass(frozen=True)
class RunningCloud:
    """A local cloud process and its admin endpoints."""

    endpoint_url: str
    process: subprocess.Popen[bytes]

    def admin(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """GET, or POST a body to, an endpoint under /_peaker/."""
        return ask(self.endpoint_url, path, body)

    def prepare_base(self, environment: str, cluster: str, region: str) -> PrepareBase:
        """Returns the call of `peaker prepare-base` for an instance id of this cluster."""
        hosts_reach_it_at = str(self.admin("state")["host_endpoint_url"])
        return by_command(self.endpoint_url, hosts_reach_it_at, environment, cluster, region)

    def set_clock(self, scale: float, now: datetime | None = None) -> None:
        """Set the clock's scale and, where given, its time."""
        body: dict[str, Any] = {"scale": scale}
        if now is not None:
            body["now"] = now.isoformat()
        self.admin("clock", body)

    def load_steadily(self, metric: Mapping[str, Any], value: float) -> None:
        """The metric of the settings has this value in the two weeks before now, and two days on."""
        period = timedelta(seconds=int(metric["period_seconds"]))
        first = (datetime.now(UTC) - timedelta(days=14)).replace(minute=0, second=0, microsecond=0)
        points = [[(first + period * at).isoformat(), value] for at in range(timedelta(days=16) // period)]
        named = {key: metric[key] for key in ("namespace", "name", "dimensions")}
        self.admin("metrics/history", {**named, "points": points})


class CloudTime:
    """The cloud's clock, read from the file that the local cloud keeps."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def real_seconds(self, cloud_seconds: float) -> float:
        """Returns the real seconds of cloud seconds at the present scale."""
        return cloud_seconds / float(json.loads(self._path.read_text())["scale"])

    def now(self) -> datetime:
        """Cloud time, aware UTC."""
        clock = json.loads(self._path.read_text())
        passed = (time.time() - clock["anchor_real"]) * clock["scale"]
        return datetime.fromtimestamp(clock["anchor_cloud"] + passed, UTC)


@contextmanager
def local_cloud(checkout: Path, state_dir: Path, port: int) -> Iterator[RunningCloud]:
    """Start the local cloud, stop it at the end whatever happens."""
    state_dir.mkdir(parents=True, exist_ok=True)
    log_path = state_dir / "server.log"
    command = [sys.executable, "-m", "localcloud", "serve", "--port", str(port), "--state", str(state_dir)]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=stop_with_parent,
        )
    try:
        cloud = RunningCloud(f"http://127.0.0.1:{port}", process)
        _await_ready(cloud, log_path)
        yield cloud
    finally:
        _stop(process)


def _await_ready(cloud: RunningCloud, log_path: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if cloud.process.poll() is not None:
            raise LocalCloudFailed(log_path.read_text(errors="replace").strip()[-2000:])
        try:
            cloud.admin("health")
        except (OSError, LocalCloudFailed):
            time.sleep(0.2)
            continue
        return
    raise LocalCloudFailed(f"not ready after {START_LIMIT_SECONDS} s; see {log_path}")


def stop_with_parent() -> None:
    """The local cloud cleans up after itself when the demonstration is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def await_end_of_earlier(state_dir: Path) -> None:
    """Wait for a local cloud whose demonstration was killed. Raises LocalCloudFailed when one goes on running."""
    deadline = time.monotonic() + EARLIER_LIMIT_SECONDS
    while (owner := live_server(state_dir)) is not None:
        if time.monotonic() > deadline:
            raise LocalCloudFailed(
                f"a local cloud runs in {state_dir} (process {owner}): stop it first, `kill {owner}`"
            )
        time.sleep(0.3)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
