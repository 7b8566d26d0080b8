"""Read endpoints by HAProxy: real processes and connections on loopback."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cloud_rig.real_machine import answering_server, free_port
from localcloud.dataplane import DataPlaneError, ReadEndpointSpec, Target
from localcloud.read_endpoint import HaproxyReadEndpoints

pytestmark = pytest.mark.real


@pytest.fixture
def endpoints(tmp_path: Path) -> Iterator[HaproxyReadEndpoints]:
    # As deep as a checkout may lie: longer than a Unix socket's path can be.
    endpoints = HaproxyReadEndpoints(tmp_path / ("deep" * 30))
    yield endpoints
    endpoints.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def servers() -> Iterator[dict[str, int]]:
    """Two database servers that answer with their own letter: port by letter."""
    with answering_server(b"a") as a, answering_server(b"b") as b:
        yield {"a": a, "b": b}


def target(
    letter: str, servers: dict[str, int], *, weight: int = 100, draining: bool = False, up: bool = True
) -> Target:
    return Target(f"i-{letter}", "127.0.0.1", servers[letter], weight, draining, up)


def ask(connection: socket.socket) -> str:
    connection.sendall(b"?")
    return connection.recv(1).decode()


def who_answers(port: int, times: int) -> Counter[str]:
    answers: Counter[str] = Counter()
    for _ in range(times):
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            answers[ask(connection)] += 1
    return answers


def test_a_target_joins_and_another_drains_under_load_without_a_failed_query(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers),)))
    with socket.create_connection(("127.0.0.1", port), 60) as kept, RunningClient(port) as client:
        assert ask(kept) == "a"
        client.wait_for_answers("a", 20)
        endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers), target("b", servers))))
        client.wait_for_answers("b", 20)
        draining = target("a", servers, draining=True)
        endpoints.apply(ReadEndpointSpec("orders", port, (draining, target("b", servers))))
        _until(lambda: _open_connections(endpoints)["i-a"] == 1)
        assert ask(kept) == "a"
    assert client.failures == []
    _until(lambda: _open_connections(endpoints)["i-a"] == 0)
    endpoints.apply(ReadEndpointSpec("orders", port, (target("b", servers),)))
    assert [stat.instance_id for stat in endpoints.stats("orders")] == ["i-b"]


def test_a_target_that_is_not_up_gets_nothing_new_and_keeps_its_connections(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers),)))
    with socket.create_connection(("127.0.0.1", port), 60) as kept:
        ask(kept)
        down = target("a", servers, up=False)
        endpoints.apply(ReadEndpointSpec("orders", port, (down, target("b", servers))))
        assert who_answers(port, 4) == {"b": 4}
        assert ask(kept) == "a"


def test_close_connections_ends_what_is_open_to_one_target(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers),)))
    with (
        socket.create_connection(("127.0.0.1", port), 60) as first,
        socket.create_connection(("127.0.0.1", port), 60) as second,
    ):
        assert ask(first) + ask(second) == "aa"
        assert endpoints.close_connections("orders", "i-a") == 2
        assert first.recv(1) == b""
        assert second.recv(1) == b""
    _until(lambda: _open_connections(endpoints)["i-a"] == 0)
    assert endpoints.close_connections("orders", "i-a") == 0


def test_a_target_that_moved_is_replaced_even_with_connections_open(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers),)))
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        ask(connection)
        moved = Target("i-a", "127.0.0.1", servers["b"])
        endpoints.apply(ReadEndpointSpec("orders", port, (moved,)))
        assert connection.recv(1) == b""
    assert who_answers(port, 2) == {"b": 2}


def test_a_taken_port_is_named(endpoints: HaproxyReadEndpoints, servers: dict[str, int]) -> None:
    with pytest.raises(DataPlaneError, match=f"port {servers['a']} is taken"):
        endpoints.apply(ReadEndpointSpec("orders", servers["a"], ()))
    with pytest.raises(DataPlaneError, match="no read endpoint orders"):
        endpoints.stats("orders")


def test_two_endpoints_cannot_share_a_port(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    endpoints.apply(ReadEndpointSpec("orders", port, (target("a", servers),)))
    with pytest.raises(DataPlaneError, match=f"port {port} is taken"):
        endpoints.apply(ReadEndpointSpec("items", port, (target("b", servers),)))
    assert who_answers(port, 2) == {"a": 2}


def test_an_endpoint_whose_process_died_comes_back_with_the_next_apply(
    endpoints: HaproxyReadEndpoints, port: int, servers: dict[str, int]
) -> None:
    spec = ReadEndpointSpec("orders", port, (target("a", servers),))
    endpoints.apply(spec)
    process = endpoints._endpoints["orders"].process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    endpoints.apply(spec)
    assert who_answers(port, 2) == {"a": 2}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ReadEndpointSpec("a b", 3306), "name"),
        (ReadEndpointSpec("orders", 0), "not a port"),
        (ReadEndpointSpec("orders", 3306, (Target("i-a", "127.0.0.1", 1, weight=300),)), "weight 300"),
        (ReadEndpointSpec("orders", 3306, (Target("i a; help", "127.0.0.1", 1),)), "target's name"),
    ],
)
def test_a_bad_spec_is_refused_before_anything_starts(
    endpoints: HaproxyReadEndpoints, spec: ReadEndpointSpec, message: str
) -> None:
    with pytest.raises(DataPlaneError, match=message):
        endpoints.apply(spec)


def test_probe_gives_the_status_code_or_nothing(endpoints: HaproxyReadEndpoints) -> None:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        port = server.server_address[1]
        assert endpoints.probe("127.0.0.1", port, "/health", 60) == 200
        assert endpoints.probe("127.0.0.1", port, "/other", 60) == 404
        server.shutdown()
    assert endpoints.probe("127.0.0.1", port, "/health", 60) is None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        assert endpoints.probe("127.0.0.1", silent.getsockname()[1], "/", 0.3) is None
        assert time.monotonic() - started < 300


class RunningClient:
    """Four threads that reconnect every five queries, as a pool with a connection lifetime does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(4)]
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> RunningClient:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_answers(self, letter: str, count: int) -> None:
        wanted = self.answers[letter] + count
        _until(lambda: self.answers[letter] >= wanted)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._port), 60) as connection:
                    for _ in range(5):
                        answer = ask(connection)
                        if not answer:
                            raise ConnectionError("closed")
                        self.answers[answer] += 1
                        time.sleep(0.005)
            except OSError as error:
                self.failures.append(str(error))


def _open_connections(endpoints: HaproxyReadEndpoints) -> dict[str, int]:
    return {stat.instance_id: stat.open_connections for stat in endpoints.stats("orders")}


def _until(condition: object, seconds: float = 120) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
