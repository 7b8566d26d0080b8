"""The responder's network side: strangers cannot hold it up, and it may do nothing but answer."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host, answering, json_row, status
from peaker_host.health import server
from peaker_host.health.policy import read_health
from peaker_host.health.responder import set_maintenance
from peaker_host.health.server import HealthServer, LastAnswer, listen, listening_addresses, primary_address

HOST_PACKAGES = Path(__file__).resolve().parents[3] / "host"
# A load balancer waits six seconds (NLB, HTTP health checks), and a client that is starved by others may need longer.
PROBE_TIMEOUT_SECONDS = 30.0
REQUEST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def good() -> tuple[int, dict[str, Any]]:
    return 200, {"state": "good"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends a connection sooner than two seconds after it was opened."""
    monkeypatch.setattr(server, "CONNECTION_SECONDS", 0.5)


@pytest.fixture
def port() -> Iterator[int]:
    with answering(HealthServer(listen(["127.0.0.1"], 0), good)) as number:
        yield number


def connect(port: int, first: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=PROBE_TIMEOUT_SECONDS)
    client.sendall(first)
    return client


def talk(port: int, request: bytes) -> bytes:
    """Everything that the server says until it closes."""
    with connect(port, request) as client:
        return b"".join(iter(lambda: client.recv(4096), b""))


def probe(port: int) -> tuple[int, dict[str, Any]]:
    return read_health("127.0.0.1", port, PROBE_TIMEOUT_SECONDS)


@contextlib.contextmanager
def many(count: int, port: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, limit[1]), limit[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        yield [stack.enter_context(connect(port, first)) for _ in range(count)]


def test_any_path_gets_the_answer_and_head_no_body(port: int) -> None:
    assert probe(port) == (200, {"state": "good"})
    head = talk(port, b"HEAD / HTTP/1.0\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert head.endswith(b"\r\n\r\n")
    assert b"Content-Length: 18\r\n" in head


def test_a_client_that_asks_byte_by_byte_in_time_is_answered(port: int) -> None:
    with connect(port) as client:
        for byte in REQUEST:
            client.sendall(bytes([byte]))
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("request_bytes", "status_code"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, b"431"),
    ],
)
def test_what_is_no_probe_is_refused(port: int, request_bytes: bytes, status_code: bytes) -> None:
    assert talk(port, request_bytes).startswith(b"HTTP/1.1 " + status_code)
    assert probe(port)[0] == 200


def test_1100_silent_connections_silence_nobody(port: int) -> None:
    with many(1100, port):
        assert [probe(port)[0] for _ in range(3)] == [200] * 3


def trickle(client: socket.socket) -> None:
    """A header line more every 50 ms, until the server has enough."""
    client.settimeout(0.05)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        client.sendall(b"X: y\r\n")
        with contextlib.suppress(TimeoutError):
            if client.recv(1) == b"":
                raise ConnectionResetError
    raise AssertionError("it may go on for ever")


@pytest.mark.usefixtures("impatient")
def test_a_client_that_trickles_header_lines_does_not_live_longer(port: int) -> None:
    with connect(port, b"GET / HTTP/1.1\r\n") as client, pytest.raises(ConnectionError):
        trickle(client)


def test_it_goes_on_when_the_process_has_no_file_descriptors_left(tmp_path: Path) -> None:
    program = (
        "import resource,sys\n"
        "from peaker_host.health.server import HealthServer, listen\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n"
        "server = HealthServer(listen(['127.0.0.1'], 0), lambda: (200, {'state': 'good'}))\n"
        "print(server.port, flush=True)\n"
        "while True: server.turn()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=HOST_PACKAGES, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            with many(200, port):
                assert probe(port)[0] == 200
            assert probe(port)[0] == 200
        finally:
            process.kill()


def test_an_answer_that_cannot_be_made_is_bad_and_not_the_end() -> None:
    def broken() -> tuple[int, dict[str, Any]]:
        raise OSError("disk gone")

    with answering(HealthServer(listen(["127.0.0.1"], 0), broken)) as port:
        for _ in range(2):
            code, body = probe(port)
            assert (code, body["why"]) == (503, "no answer: OSError: disk gone")


class TestAddresses:
    def test_loopback_and_the_address_of_the_default_route(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "primary_address", lambda: "10.0.3.7")
        assert listening_addresses(host.settings) == ["127.0.0.1", "10.0.3.7"]
        host.configure(health_address="10.9.9.9")
        assert listening_addresses(host.settings) == ["127.0.0.1", "10.9.9.9"]
        host.configure(health_address="0.0.0.0")
        assert listening_addresses(host.settings) == ["0.0.0.0"]

    def test_without_a_default_route_all_of_them(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "primary_address", lambda: None)
        assert listening_addresses(host.settings) == ["0.0.0.0"]

    def test_the_address_is_one_of_this_machine(self) -> None:
        address = primary_address()
        if address is not None:
            for listener in listen([address], 0):
                listener.close()


# It looks twenty times a second instead of once: three good looks in a row come before its first good answer.
LOOKS_OFTEN = (
    "import sys; from peaker_host import cli; from peaker_host.health import responder;"
    "responder.SAMPLE_SECONDS = 0.05; sys.exit(cli.main(sys.argv[1:]))"
)


class Responder:
    """`peaker_host health` as systemd runs it, with a database client that answers as the test says."""

    def __init__(self, host: Host) -> None:
        self.answer = host.root / "answer"
        facts = {"read_only": 1, "instruments": 1, "received": "", "executed": "", "heartbeats": 1}
        times = {"heartbeat_interval_seconds": 1.0, "contact_age_seconds": 0.1, "unapplied_seconds": None}
        self.answer.write_text(json_row(**facts, **times) + status())
        program = host.root / "mysql"
        program.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {self.answer}\n")
        program.chmod(0o755)
        host.configure(mysql_client=str(program), health_address="127.0.0.1")
        argv = [sys.executable, "-c", LOOKS_OFTEN, "--settings", str(host.settings_path)]
        self.process = subprocess.Popen(
            [*argv, "health", "--port", "0"], cwd=HOST_PACKAGES, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        found = re.search(r"port (\d+)", said)
        assert found, said
        self.port = int(found.group(1))
        Path(host.settings.state_dir).mkdir(exist_ok=True)

    @property
    def children(self) -> list[int]:
        """Processes that listen on the port: the one that answers."""
        pid = self.process.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in listed if not _runs_a_program(int(child))]

    def until(self, wanted: int) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while True:
            code, body = probe(self.port)
            if code == wanted:
                return body
            assert time.monotonic() < deadline, (code, body)
            time.sleep(0.05)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


def _runs_a_program(pid: int) -> bool:
    """The database client, as the responder starts it each second."""
    try:
        return b"peaker_host" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


@pytest.fixture
def responder(host: Host) -> Iterator[Responder]:
    running = Responder(host)
    yield running
    running.close()


def ids_of(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: fields[name].split() for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm")}


def test_the_process_that_answers_is_nobody_has_no_rights_and_hears_what_the_other_sees(
    host: Host, responder: Responder
) -> None:
    assert responder.until(200)["state"] == "good"
    [child] = responder.children
    assert ids_of(child) == {
        "Uid": ["65534"] * 4,
        "Gid": ["65534"] * 4,
        "Groups": [],
        "CapEff": ["0" * 16],
        "CapPrm": ["0" * 16],
    }
    assert (listening(responder.process.pid), len(listening(child))) == ([], 1)
    assert set_maintenance(host.settings, True) == {"maintenance": "on", "changed": True}
    assert set_maintenance(host.settings, True)["changed"] is False
    assert responder.until(404) == {"state": "maintenance", "why": "maintenance is on", "draining": False}
    set_maintenance(host.settings, False)
    responder.until(200)
    responder.answer.write_text("result\n")
    assert "did not answer" in responder.until(503)["why"]


def listening(pid: int) -> list[str]:
    """Inodes of the TCP sockets on which a process listens."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {line.split()[9] for line in lines if line.split()[3] == "0A"}
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return [link for link in links if link[8:-1] in inodes and link.startswith("socket:")]


def test_a_process_that_looks_no_more_is_bad_within_seconds() -> None:
    last = LastAnswer()
    last.hear(b'[200, {"state": "good"}]', 100.0)
    last.hear(b"half an ans", 103.0)
    assert last.answer(105.0)[0] == 200
    assert last.answer(105.1) == (
        503,
        {"state": "bad", "why": "the process that looks was silent for 5.1 s"},
    )


def test_both_end_when_either_does(responder: Responder) -> None:
    responder.until(200)
    [child] = responder.children
    os.kill(child, signal.SIGKILL)
    output, _ = responder.process.communicate(timeout=60)
    assert responder.process.returncode == 1, "systemd starts both again"
    assert output is None


def test_sigterm_is_a_clean_end_and_frees_the_port(responder: Responder) -> None:
    responder.until(200)
    responder.process.send_signal(signal.SIGTERM)
    responder.process.communicate(timeout=60)
    assert responder.process.returncode == 0
    for listener in listen(["127.0.0.1"], responder.port):
        listener.close()


def test_a_killed_process_that_looked_takes_the_other_one_along(responder: Responder) -> None:
    responder.until(200)
    [child] = responder.children
    responder.process.kill()
    responder.process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{child}").exists() and "zombie" not in Path(f"/proc/{child}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
