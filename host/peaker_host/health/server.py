"""A small HTTP server for probes that strangers cannot hold up: one thread, a bounded number of connections, and a
time limit for each.

It never waits for a client. When all places are taken the oldest connection ends, so that a new probe is always heard;
the same when the process or the machine has no more file descriptors.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

MAX_CONNECTIONS = 128
# From the first packet to the last; load balancers give up after 6 s and peers after 0.8 s.
CONNECTION_SECONDS = 2.0
_REQUEST_BYTES = 8192
# Well below the places, so that each newcomer is read before others could push it out.
_ACCEPTS_PER_TURN = 32
_TURN_SECONDS = 0.2
_NO_DESCRIPTORS_PAUSE_SECONDS = 0.05
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

Answer = Callable[[], Tuple[int, Dict[str, Any]]]


def listen(addresses: Sequence[str], port: int) -> List[socket.socket]:
    """Listening sockets, one per IPv4 address, all on one port (any free one for 0)."""
    listeners: List[socket.socket] = []
    for address in addresses:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(1024)
        except OSError:
            for one in [*listeners, listener]:
                one.close()
            raise
        listener.setblocking(False)
        port = listener.getsockname()[1]
        listeners.append(listener)
    return listeners


class _Connection:
    """One client: what it has sent so far, or what it is still to get."""

    def __init__(self, client: socket.socket, opened_at: float) -> None:
        self.client, self.opened_at = client, opened_at
        self.received = b""
        self.unsent: Optional[bytes] = None
        self.ended = False


class HealthServer:
    """Every path gets the answer of the moment. The caller runs `turn` in a loop; nothing else may block it."""

    def __init__(self, listeners: Sequence[socket.socket], answer: Answer) -> None:
        self._answer = answer
        self._listeners = list(listeners)
        # In the order in which they were opened.
        self._open: Dict[_Connection, None] = {}
        self.selector = selectors.DefaultSelector()
        for listener in listeners:
            self.selector.register(listener, selectors.EVENT_READ, None)

    @property
    def port(self) -> int:
        """The port of all its addresses."""
        return int(self._listeners[0].getsockname()[1])

    def turn(self, timeout_seconds: float = _TURN_SECONDS) -> List[Any]:
        """Wait for something to happen and do it. Returns the data of descriptors that others registered."""
        others = []
        for key, _ in self.selector.select(timeout_seconds):
            if isinstance(key.data, _Connection):
                if key.data in self._open:
                    self._move(key.data)
            elif key.data is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            else:
                others.append(key.data)
        oldest_allowed = time.monotonic() - CONNECTION_SECONDS
        while self._open and next(iter(self._open)).opened_at < oldest_allowed:
            self._end(next(iter(self._open)))
        return others

    def close(self) -> None:
        """End all connections and stop listening."""
        for connection in list(self._open):
            self._end(connection)
        for listener in self._listeners:
            listener.close()
        self.selector.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client, _address = listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Too many open files, of this process or of the machine.
                if not self._open:
                    time.sleep(_NO_DESCRIPTORS_PAUSE_SECONDS)
                    return
                self._end(next(iter(self._open)))
                continue
            if len(self._open) >= MAX_CONNECTIONS:
                self._end(next(iter(self._open)))
            client.setblocking(False)
            connection = _Connection(client, time.monotonic())
            self._open[connection] = None
            self.selector.register(client, selectors.EVENT_READ, connection)
            self._move(connection)

    def _move(self, connection: _Connection) -> None:
        """Read or write what can be without waiting."""
        try:
            if connection.unsent is None or connection.ended:
                self._read(connection)
            if connection.unsent is not None and not connection.ended:
                self._write(connection)
        except BlockingIOError:
            return
        except OSError:
            self._end(connection)

    def _read(self, connection: _Connection) -> None:
        piece = connection.client.recv(4096)
        if not piece:
            self._end(connection)
            return
        if connection.ended:
            return
        connection.received += piece
        complete = b"\r\n\r\n" in connection.received or b"\n\n" in connection.received
        if complete or len(connection.received) > _REQUEST_BYTES:
            connection.unsent = self._response(connection.received, complete)

    def _write(self, connection: _Connection) -> None:
        assert connection.unsent is not None
        sent = connection.client.send(connection.unsent)
        connection.unsent = connection.unsent[sent:]
        if connection.unsent:
            self.selector.modify(connection.client, selectors.EVENT_WRITE, connection)
            return
        # The client reads to the end before it closes; closing first could take the answer away from it.
        connection.ended = True
        connection.client.shutdown(socket.SHUT_WR)
        self.selector.modify(connection.client, selectors.EVENT_READ, connection)

    def _response(self, request: bytes, complete: bool) -> bytes:
        method = request.split(b" ", 1)[0]
        if not complete:
            return _http(431, {"why": "the request is too long"}, True)
        if method not in (b"GET", b"HEAD"):
            known = method.isalpha() and method.isupper()
            return _http(405 if known else 400, {"why": "GET and HEAD are answered"}, True)
        try:
            status, body = self._answer()
        except Exception as error:  # the top boundary: unknown is not healthy
            status, body = 503, {"state": "bad", "why": f"no answer: {type(error).__name__}: {error}"}
        return _http(status, body, method == b"GET")

    def _end(self, connection: _Connection) -> None:
        self._open.pop(connection, None)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(connection.client)
        connection.client.close()


def _http(status: int, body: Dict[str, Any], with_body: bool) -> bytes:
    content = json.dumps(body).encode() + b"\n"
    allow = "Allow: GET, HEAD\r\n" if status == 405 else ""
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + (content if with_body else b"")
