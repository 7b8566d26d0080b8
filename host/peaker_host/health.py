"""Answers the load balancer's question: may this replica get connections?

200 after enough good samples in a row, 404 while maintenance is on, 503 otherwise. A sample that could not be
taken, a lag that is NULL and a sample that is too old are bad: unknown is not healthy. The body says why.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Optional, Tuple

from peaker_host.errors import HostError
from peaker_host.files import write_atomically
from peaker_host.mysql_client import MysqlClient
from peaker_host.replica_status import DIALECTS, read_status
from peaker_host.settings import Settings

SAMPLE_SECONDS = 1.0
STALE_SECONDS = 5.0
_QUERY_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True)
class Sample:
    """One look at the replica. `problem` is empty when it is good."""

    problem: str
    lag_seconds: Optional[int]


class HealthState:
    """Good samples in a row, and the latest one. Pure: times are arguments (monotonic seconds)."""

    def __init__(self, needed_samples: int) -> None:
        self._needed = needed_samples
        self._good = 0
        self._latest: Optional[Sample] = None
        self._taken_at = 0.0
        self._lock = threading.Lock()

    def add(self, sample: Sample, now: float) -> None:
        """Take in a sample; a bad one starts the count again."""
        with self._lock:
            self._good = 0 if sample.problem else self._good + 1
            self._latest, self._taken_at = sample, now

    def answer(self, maintenance: bool, now: float) -> Tuple[int, Dict[str, Any]]:
        """HTTP status and JSON body."""
        with self._lock:
            good, latest, age = self._good, self._latest, now - self._taken_at
        if maintenance:
            return 404, {"state": "maintenance", "why": "maintenance is on"}
        if latest is None:
            return 503, {"state": "bad", "why": "no sample yet"}
        body: Dict[str, Any] = {
            "lag_seconds": latest.lag_seconds,
            "good_samples": good,
            "sample_age_seconds": round(age, 1),
        }
        if age > STALE_SECONDS:
            return 503, dict(body, state="bad", why=f"the last sample is {age:.1f} s old")
        if latest.problem:
            return 503, dict(body, state="bad", why=latest.problem)
        if good < self._needed:
            return 503, dict(body, state="bad", why=f"{good} of {self._needed} good samples")
        return 200, dict(body, state="good", why="read only, replicating, lag under its limit")


def take_sample(client: MysqlClient, engine: str, lag_limit_seconds: int) -> Sample:
    """Ask the server: read only, both threads, lag. Anything else than clear good news is a problem."""
    try:
        read_only = client.json({"read_only": DIALECTS[engine].read_only_expression}, _QUERY_TIMEOUT_SECONDS)
        status = read_status(client, engine, _QUERY_TIMEOUT_SECONDS)
    except (HostError, ValueError, KeyError, IndexError) as error:
        return Sample(f"the database did not answer: {error}", None)
    if not int(read_only["read_only"]):
        return Sample("the database accepts writes", None)
    if status is None:
        return Sample("no replication channel", None)
    if not status.io_running:
        return Sample(f"the receiver thread does not run: {status.io_error}", status.lag_seconds)
    if not status.sql_running:
        return Sample(f"the applier thread does not run: {status.sql_error}", status.lag_seconds)
    if status.lag_seconds is None:
        return Sample("the lag is unknown", None)
    if status.lag_seconds > lag_limit_seconds:
        return Sample(f"lag {status.lag_seconds} s is over {lag_limit_seconds} s", status.lag_seconds)
    return Sample("", status.lag_seconds)


def serve(
    settings: Settings, client: MysqlClient, port: int, stop: threading.Event, address: str = "0.0.0.0"
) -> ThreadingHTTPServer:
    """Start sampling and answering in threads of their own; returns the server (its port when 0 was asked)."""
    state = HealthState(settings.health_good_samples)
    server = _Server((address, port), _handler(state, settings.maintenance_path))
    sampler = threading.Thread(
        target=_sample_forever,
        args=(state, lambda: take_sample(client, settings.engine, settings.health_lag_seconds), stop),
        daemon=True,
    )
    sampler.start()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    return server


def set_maintenance(settings: Settings, on: bool) -> Dict[str, Any]:
    """Turn maintenance on or off; saying it twice changes nothing."""
    path = settings.maintenance_path
    was = os.path.exists(path)
    if on and not was:
        write_atomically(path, "on\n")
    elif not on and was:
        os.unlink(path)
    return {"maintenance": "on" if on else "off", "changed": on != was}


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


def _sample_forever(state: HealthState, take: Callable[[], Sample], stop: threading.Event) -> None:
    while not stop.is_set():
        state.add(take(), time.monotonic())
        stop.wait(SAMPLE_SECONDS)


def _handler(state: HealthState, maintenance_path: str) -> type:
    class Handler(BaseHTTPRequestHandler):
        """Every path gets the same answer."""

        def do_GET(self) -> None:
            """Answer a probe."""
            status, body = state.answer(os.path.exists(maintenance_path), time.monotonic())
            content = json.dumps(body).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Probes come every few seconds from several places; they are not logged."""

    return Handler
