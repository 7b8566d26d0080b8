"""What the tests of the real data plane share: the built images and a network that no running cloud uses."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcloud.hosts import NetworkPlan
from localcloud.hosts.images import MYSQL_IMAGE_ID, ensure_image

STATE = Path(".localcloud").resolve()
IMAGES = STATE / "images"


def with_this_package() -> dict[str, str]:
    """The environment of a process that is to import this checkout's package."""
    package = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}


def built_mysql_image() -> str:
    """The MySQL image's id, built now if it is not there."""
    ensure_image(MYSQL_IMAGE_ID, IMAGES)
    return MYSQL_IMAGE_ID


def own_network(offset: int = 0) -> NetworkPlan:
    """A network by this process's number, so that two test runs do not meet."""
    number = (os.getpid() + offset) % 100
    return NetworkPlan(bridge=f"pkt{os.getpid() % 10**7}{offset}", cidr=f"10.{100 + number}.0.0/16")


def address(network: NetworkPlan, number: int) -> str:
    """The network's host address of that number."""
    return str(network.network.network_address + 256 + number)


def new_instance_id() -> str:
    return f"i-0{secrets.token_hex(8)}"


def free_port() -> int:
    """None of those that the kernel gives to whoever connects, which may take it before the test does."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class _EchoHandler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(64):
            self.request.sendall(self.server.answer)  # type: ignore[attr-defined]


@contextmanager
def answering_server(answer: bytes) -> Iterator[int]:
    """A TCP server on loopback that answers whatever it gets; yields its port."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _EchoHandler)
    server.daemon_threads = True
    server.answer = answer  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
