"""Read endpoints by HAProxy: one process per endpoint, changed only through its runtime API.

A process per endpoint needs no reload ever, so that the connections of one endpoint never depend on another.
Where it behaves as a Network Load Balancer does: TCP, 350 s idle limit, no retry on another target, and it
fails open: when no target is up, all that are not draining are used.
"""

from __future__ import annotations

import http.client
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.dataplane import DataPlaneError, ReadEndpointSpec, Target, TargetStat
from localcloud.hosts.state_lock import StateLock, process_mark
from localcloud.read_endpoint.runtime_api import RuntimeApi

_BACKEND = "targets"
_START_LIMIT_SECONDS = 5.0
_STOP_LIMIT_SECONDS = 5.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HAPROXY = "/usr/sbin/haproxy"
_MAX_WEIGHT = 256
# A server where nobody listens (tcpmux, long extinct): what is sent there is closed at once.
_REFUSING, _REFUSING_ADDRESS = "refusing", "127.0.0.1:1"

_CONFIGURATION = """\
global
    stats socket unix@admin.sock mode 600 level admin
    stats timeout 60s
    maxconn 4000
    nbthread 1
    # Two processes sharing one port would hide that it is taken.
    noreuseport

defaults
    mode tcp
    option tcpka
    timeout connect 5s
    timeout client 350s
    timeout server 350s
    # A target that never closes its half would hold a connection that the order to close it does not end.
    timeout client-fin 2s
    timeout server-fin 2s
    retries 0

frontend reads
    bind 127.0.0.1:{port}
    default_backend targets

backend targets
    balance roundrobin
"""


@dataclass
class _Endpoint:
    name: str
    port: int
    directory: Path
    process: subprocess.Popen[bytes]
    api: RuntimeApi
    targets: dict[str, Target] = field(default_factory=dict)
    refuses: bool = False


class HaproxyReadEndpoints:
    """Real load balancers (localcloud.dataplane.ReadEndpoints) on 127.0.0.1."""

    def __init__(self, state_directory: Path) -> None:
        self._state = state_directory.resolve()
        self._lock = threading.RLock()
        self._endpoints: dict[str, _Endpoint] = {}
        self._state_lock = StateLock(self._state)

    def apply(self, spec: ReadEndpointSpec) -> None:
        _check(spec)
        with self._lock:
            endpoint = self._endpoints.get(spec.name)
            if endpoint is not None and not _serves(endpoint, spec.listener_port):
                self._stop(endpoint)
                endpoint = None
            if endpoint is None:
                endpoint = self._start(spec)
            wanted = {target.instance_id: target for target in spec.targets}
            for instance_id, target in list(endpoint.targets.items()):
                replacement = wanted.get(instance_id)
                if replacement is None or _place(replacement) != _place(target):
                    self._remove_server(endpoint, instance_id)
            for target in wanted.values():
                if target.instance_id not in endpoint.targets:
                    _add_server(endpoint, target)
            _set_states(endpoint, wanted.values())
            _set_refused(endpoint, spec.refused_weight)

    def stats(self, name: str) -> Sequence[TargetStat]:
        with self._lock:
            endpoint = self._known(name)
            found = endpoint.api.open_sessions(_BACKEND)
            return [TargetStat(name, count) for name, count in found.items() if name in endpoint.targets]

    def close_connections(self, name: str, instance_id: str) -> int:
        with self._lock:
            endpoint = self._known(name)
            if instance_id not in endpoint.targets:
                raise DataPlaneError(f"read endpoint {name} has no target {instance_id}")
            return _close_sessions(endpoint, instance_id)

    def remove(self, name: str) -> None:
        with self._lock:
            endpoint = self._endpoints.get(name)
            if endpoint is not None:
                self._stop(endpoint)

    def probe(self, address: str, port: int, path: str, timeout_seconds: float) -> int | None:
        headers = {"User-Agent": "ELB-HealthChecker/2.0", "Connection": "close"}
        connection = http.client.HTTPConnection(address, port, timeout=timeout_seconds)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            for endpoint in list(self._endpoints.values()):
                self._stop(endpoint)
            self._state_lock.release()

    def _known(self, name: str) -> _Endpoint:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise DataPlaneError(f"there is no read endpoint {name}")
        return endpoint

    def _start(self, spec: ReadEndpointSpec) -> _Endpoint:
        self._state_lock.acquire()
        directory = self._state / "read_endpoints" / spec.name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        (directory / "haproxy.cfg").write_text(_CONFIGURATION.format(port=spec.listener_port))
        log = directory / "haproxy.log"
        try:
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [_HAPROXY, "-db", "-f", "haproxy.cfg"],
                    cwd=directory,
                    env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **process_mark(self._state)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except FileNotFoundError as error:
            raise DataPlaneError("haproxy is not installed: apt-get install haproxy") from error
        endpoint = _Endpoint(
            spec.name, spec.listener_port, directory, process, RuntimeApi(directory / "admin.sock")
        )
        self._endpoints[spec.name] = endpoint
        if not _await_answer(endpoint):
            said = log.read_text().strip()
            self._stop(endpoint)
            raise DataPlaneError(_start_failure(spec, said))
        return endpoint

    def _stop(self, endpoint: _Endpoint) -> None:
        self._endpoints.pop(endpoint.name, None)
        if endpoint.process.poll() is None:
            endpoint.process.terminate()
        try:
            endpoint.process.wait(_STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            endpoint.process.kill()
            endpoint.process.wait()
        shutil.rmtree(endpoint.directory, ignore_errors=True)

    def _remove_server(self, endpoint: _Endpoint, instance_id: str) -> None:
        server = f"{_BACKEND}/{instance_id}"
        endpoint.api.order(f"set server {server} state maint")
        deadline = time.monotonic() + _STOP_LIMIT_SECONDS
        # HAProxy lets a server go only after the last of its connections has ended, a moment after the order.
        while True:
            _close_sessions(endpoint, instance_id)
            answer = endpoint.api.ask(f"del server {server}").strip()
            if "Server deleted" in answer:
                break
            if time.monotonic() > deadline:
                raise DataPlaneError(f"HAProxy does not remove {instance_id} from {endpoint.name}: {answer}")
            time.sleep(0.02)
        del endpoint.targets[instance_id]


def _serves(endpoint: _Endpoint, port: int) -> bool:
    return endpoint.port == port and endpoint.process.poll() is None


def _check(spec: ReadEndpointSpec) -> None:
    if not _NAME.fullmatch(spec.name):
        raise DataPlaneError(f"{spec.name!r} is not a name for a read endpoint")
    if not 1 <= spec.listener_port <= 65535:
        raise DataPlaneError(f"read endpoint {spec.name}: {spec.listener_port} is not a port")
    if not 0 <= spec.refused_weight <= _MAX_WEIGHT:
        raise DataPlaneError(
            f"read endpoint {spec.name}: weight {spec.refused_weight} is not in 0..{_MAX_WEIGHT}"
        )
    for target in spec.targets:
        if not _NAME.fullmatch(target.instance_id):
            raise DataPlaneError(f"read endpoint {spec.name}: {target.instance_id!r} is not a target's name")
        if target.instance_id == _REFUSING:
            raise DataPlaneError(f"read endpoint {spec.name}: no target can be called {_REFUSING}")
        if not 0 <= target.weight <= _MAX_WEIGHT:
            raise DataPlaneError(
                f"read endpoint {spec.name}: weight {target.weight} of {target.instance_id}"
                f" is not in 0..{_MAX_WEIGHT}"
            )


def _place(target: Target) -> tuple[str, int]:
    return target.address, target.port


def _add_server(endpoint: _Endpoint, target: Target) -> None:
    """A server added at run time starts in maintenance: it gets nothing before its state is set."""
    endpoint.api.order(
        f"add server {_BACKEND}/{target.instance_id} {target.address}:{target.port} weight {target.weight}",
        accepted_answers=("New server registered",),
    )
    endpoint.targets[target.instance_id] = target


def _set_states(endpoint: _Endpoint, targets: Iterable[Target]) -> None:
    serving = [target for target in targets if not target.draining]
    fails_open = not any(target.up for target in serving)
    for target in targets:
        server = f"{_BACKEND}/{target.instance_id}"
        endpoint.api.order(f"set server {server} weight {target.weight}")
        state = "ready" if target in serving and (target.up or fails_open) else "drain"
        endpoint.api.order(f"set server {server} state {state}")
        endpoint.targets[target.instance_id] = target


def _set_refused(endpoint: _Endpoint, weight: int) -> None:
    """The share of connections without a target goes to a server that refuses them; no retry follows."""
    server = f"{_BACKEND}/{_REFUSING}"
    if weight and not endpoint.refuses:
        endpoint.api.order(
            f"add server {server} {_REFUSING_ADDRESS} weight {weight}",
            accepted_answers=("New server registered",),
        )
        endpoint.refuses = True
    if endpoint.refuses:
        endpoint.api.order(f"set server {server} weight {weight}")
        endpoint.api.order(f"set server {server} state {'ready' if weight else 'maint'}")


def _close_sessions(endpoint: _Endpoint, instance_id: str) -> int:
    count = endpoint.api.open_sessions(_BACKEND).get(instance_id, 0)
    if count:
        endpoint.api.order(f"shutdown sessions server {_BACKEND}/{instance_id}")
    return count


def _await_answer(endpoint: _Endpoint) -> bool:
    deadline = time.monotonic() + _START_LIMIT_SECONDS
    while time.monotonic() < deadline and endpoint.process.poll() is None:
        try:
            endpoint.api.ask("show info")
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


def _start_failure(spec: ReadEndpointSpec, said: str) -> str:
    first_line = next((line for line in said.splitlines() if "cannot bind" in line.lower()), said)
    if "already in use" in said or "cannot bind" in said.lower():
        return (
            f"read endpoint {spec.name}: port {spec.listener_port} is taken by another program;"
            f" stop it or choose another listener_port ({first_line})"
        )
    return f"read endpoint {spec.name}: HAProxy did not start on port {spec.listener_port}: {said}"
