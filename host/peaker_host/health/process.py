"""The responder as two processes: one looks at the database, the other one talks to the network and may do no more.

The first runs as root, because it reads the account's file and the volumes of others; nothing of a stranger reaches it
but its peers' answers. The second is `nobody`: it has the listening sockets and what the first one tells it, five times
a second. When either ends, so does the other, and systemd starts both again.
"""

from __future__ import annotations

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
from peaker_host.health.server import HealthServer, listen
from peaker_host.machine.errors import ResponderUnreachable
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import MISFITS, parsed_json

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
