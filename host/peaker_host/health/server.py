"""The responder is two processes: one looks at the database, the other one talks to the network and may do no more.

The first runs as root, because it reads the account's file and the volumes of others; nothing of a stranger reaches it
but its peers' answers. The second is `nobody`: it has the listening sockets and what the first one tells it, five times
a second. When either ends, so does the other, and systemd starts both again.

Strangers cannot hold up its HTTP server: one thread that never waits for a client, a bounded number of connections, and
a time limit for each. When all places are taken, or the file descriptors, the oldest connection ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.health.responder import STALE_SECONDS, HealthState, Sampler, answer_now
from peaker_host.machine.errors import MISFITS, ResponderUnreachable, parsed_json
from peaker_host.machine.settings import Settings

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


_TELL_SECONDS = 0.2
_MOST_BYTES = 256 * 1024
_UNPRIVILEGED = "nobody"
_NOBODY_ID = 65534
# A place in TEST-NET-1 (RFC 5737): nothing is sent to it, the kernel only says from where it would be.
_SOMEWHERE = ("192.0.2.1", 9)


def listening_addresses(settings: Settings) -> List[str]:
    """Loopback and the address at which the load balancer and the peers reach this host; `health_address` in host.json
    says another one. All addresses while the host has no default route."""
    wanted = settings.health_address or primary_address()
    if wanted is None or wanted == "0.0.0.0":
        return ["0.0.0.0"]
    return ["127.0.0.1"] if wanted == "127.0.0.1" else ["127.0.0.1", wanted]


def primary_address() -> Optional[str]:
    """The IPv4 address of this host on its default route: on EC2 the private one of the first interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") or address == "0.0.0.0" else address


def run(settings: Settings, client: MysqlClient, port: int, say: Callable[[str], None]) -> Dict[str, Any]:
    """Answer until SIGTERM. Raises ResponderUnreachable when the process that answers has ended by itself."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    addresses = listening_addresses(settings)
    listeners = listen(addresses, port)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        ours.close()
        _answer_and_exit(listeners, theirs)
    theirs.close()
    say(f"answering on {', '.join(addresses)}, port {listeners[0].getsockname()[1]}")
    for listener in listeners:
        listener.close()
    try:
        return _look_and_tell(settings, client, ours, child, stop)
    finally:
        ours.close()


def _look_and_tell(
    settings: Settings, client: MysqlClient, channel: socket.socket, child: int, stop: threading.Event
) -> Dict[str, Any]:
    state = HealthState()
    sampler = Sampler(settings, client, state)
    threading.Thread(target=sampler.forever, args=(stop,), daemon=True).start()
    channel.setblocking(False)
    while True:
        try:
            channel.send(json.dumps(answer_now(state, settings)).encode())
        except BlockingIOError:
            pass  # it has enough to read; what it has is younger than STALE_SECONDS or counts as too old
        except OSError:
            break
        if stop.wait(_TELL_SECONDS):
            channel.close()
            os.waitpid(child, 0)
            return {"stopped": True}
    stop.set()
    _, status = os.waitpid(child, 0)
    raise ResponderUnreachable(f"the process that answers probes has ended with status {status}")


def _answer_and_exit(listeners: Sequence[socket.socket], channel: socket.socket) -> None:
    """Runs the child until it ends; never returns."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends when its parent does
        drop_privileges()
        relay_answers(listeners, channel)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def drop_privileges() -> None:
    """Become nobody, for good. A process that is not root is left as it is."""
    if os.geteuid() != 0:
        return
    try:
        account = pwd.getpwnam(_UNPRIVILEGED)
        user, group = account.pw_uid, account.pw_gid
    except KeyError:
        user = group = _NOBODY_ID
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    os.umask(0o077)
    os.chdir("/")


def relay_answers(listeners: Sequence[socket.socket], channel: socket.socket) -> None:
    """Answers probes with the last answer from the channel; an old one is bad. Ends with the channel."""
    last = LastAnswer()
    server = HealthServer(listeners, lambda: last.answer(time.monotonic()))
    channel.setblocking(False)
    server.selector.register(channel, selectors.EVENT_READ, "channel")
    while True:
        if not server.turn():
            continue
        try:
            message = channel.recv(_MOST_BYTES)
        except BlockingIOError:
            continue
        if not message:
            server.close()
            return
        last.hear(message, time.monotonic())


class LastAnswer:
    """The last answer of the process that looks, and its time (monotonic seconds)."""

    def __init__(self) -> None:
        self._answer: Tuple[int, Dict[str, Any]] = (503, {"state": "bad", "why": "no sample yet"})
        self._heard_at: Optional[float] = None

    def hear(self, message: bytes, now: float) -> None:
        """Keeps a message as the last answer; an unreadable one is ignored, so that the last answer grows old."""
        try:
            status, body = parsed_json(message)
            heard = (int(status), dict(body))
        except MISFITS:
            return
        self._answer, self._heard_at = heard, now

    def answer(self, now: float) -> Tuple[int, Dict[str, Any]]:
        silent = 0.0 if self._heard_at is None else now - self._heard_at
        if silent > STALE_SECONDS:
            return 503, {"state": "bad", "why": f"the process that looks was silent for {silent:.1f} s"}
        return self._answer
