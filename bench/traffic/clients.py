"""Readers behind the endpoint as applications have them: pools of connections, each with a lifetime.

Two kinds of pool. `keepalive` tests a connection that was idle before it lends it, as HikariCP does after half a
second; `plain` lends what it has and finds out by the query. Both replace a connection at the end of its lifetime
and try again to connect until their time-out, so a connection that could not be opened delays a query; a query
that was sent and not answered has failed. Every read says how stale its answer was, by the row that
`SourceHeartbeat` writes.

Runs as a process of its own (`ReaderProcess`), so that nothing else shares its interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import random
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import Any

import pymysql

from lab import seed
from lab.endpoint import Endpoint

# Each beat is a commit on every server, several synchronous writes to disks that share this machine's processors:
# ten a second take most of one and double the readers' latency.
HEARTBEAT_SECONDS = 0.25
# How long one of Python's threads may keep the others from running; its default, 5 ms, is two queries.
SWITCH_SECONDS = 0.0005
CONNECT_TIMEOUT_SECONDS = 3
BORROW_TIMEOUT_SECONDS = 30.0
QUERY_TIMEOUT_SECONDS = 10
TEST_AFTER_IDLE_SECONDS = 0.5
NICENESS = -10
# As the bench was started; it leaves the first half to what serves.
_USABLE = sorted(os.sched_getaffinity(0))
_DATABASE_ERRORS = (pymysql.err.MySQLError, OSError)


@dataclass(frozen=True)
class PoolKind:
    """How a pool treats its connections. Times in seconds; `pause` is the mean time between queries."""

    name: str
    size: int
    lifetime_seconds: float
    pause_seconds: float
    tests_idle: bool


POOLS = (
    PoolKind("keepalive", 8, 8.0, 0.06, tests_idle=True),
    PoolKind("plain", 4, 8.0, 0.5, tests_idle=False),
)


@dataclass(frozen=True)
class Read:
    """One query. Times are epoch seconds; `server` is the server_uuid, `stale_seconds` None when it failed."""

    pool: str
    server: str
    connected_at: float
    sent_at: float
    seconds: float
    stale_seconds: float | None
    error: str | None


@dataclass(frozen=True)
class ConnectAttempt:
    """One try to open a connection; `server` is None when it failed."""

    at: float
    server: str | None
    seconds: float


@dataclass
class Traffic:
    """What the readers saw."""

    reads: list[Read] = field(default_factory=list)
    attempts: list[ConnectAttempt] = field(default_factory=list)


class Client:
    """One connection slot of a pool and the thread that uses it."""

    def __init__(self, endpoint: Endpoint, kind: PoolKind, number: int, stopping: Callable[[], bool]) -> None:
        self._endpoint, self._kind, self._stopping = endpoint, kind, stopping
        self._random = random.Random(number)
        self._connection: Any = None
        self._server, self._opened_at, self._used_at, self._until = "", 0.0, 0.0, 0.0
        self.traffic = Traffic()

    def run(self) -> None:
        """Query until stopped."""
        while not self._stopping():
            if self._borrow():
                self._read()
            time.sleep(self._random.expovariate(1 / self._kind.pause_seconds))
        self._close()

    def _borrow(self) -> bool:
        """A usable connection, opened anew where its lifetime is over; False when stopped while trying."""
        if self._connection is not None and time.time() >= self._until:
            self._close()
        if self._connection is not None and self._kind.tests_idle and not self._answers():
            self._close()
        deadline = time.time() + BORROW_TIMEOUT_SECONDS
        while self._connection is None and not self._stopping():
            self._connect()
            if self._connection is None:
                if time.time() > deadline:
                    self._note(time.time(), 0.0, None, "no connection within the pool's time-out")
                    return False
                time.sleep(0.1)
        return self._connection is not None

    def _answers(self) -> bool:
        if time.time() - self._used_at < TEST_AFTER_IDLE_SECONDS:
            return True
        try:
            self._connection.ping(reconnect=False)
        except _DATABASE_ERRORS:
            return False
        return True

    def _connect(self) -> None:
        started = time.time()
        try:
            connection = connect(self._endpoint)
            server = query_one(connection, "SELECT @@server_uuid")
        except _DATABASE_ERRORS:
            self.traffic.attempts.append(ConnectAttempt(started, None, time.time() - started))
            return
        now = time.time()
        self.traffic.attempts.append(ConnectAttempt(started, str(server), now - started))
        self._connection, self._server, self._opened_at, self._used_at = connection, str(server), now, now
        # Spread, so that the pool never replaces all its connections at once.
        self._until = now + self._kind.lifetime_seconds * self._random.uniform(0.75, 1.0)

    def _read(self) -> None:
        table = self._random.randint(1, self._endpoint.tables)
        key = self._random.randint(1, self._endpoint.table_size)
        text = (
            f"SELECT written_at, (SELECT c FROM sbtest{table} WHERE id = {key}) FROM heartbeat WHERE id = 1"
        )
        sent_at = time.time()
        try:
            written_at = float(query_one(self._connection, text))
        except _DATABASE_ERRORS as error:
            self._note(sent_at, time.time() - sent_at, None, f"{type(error).__name__}: {error}")
            self._close()
            return
        answered_at = time.time()
        self._used_at = answered_at
        self._note(sent_at, answered_at - sent_at, max(0.0, sent_at - written_at), None)

    def _note(self, sent_at: float, seconds: float, stale: float | None, error: str | None) -> None:
        self.traffic.reads.append(
            Read(self._kind.name, self._server, self._opened_at, sent_at, seconds, stale, error)
        )

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*_DATABASE_ERRORS):  # the other side may have closed it first
                self._connection.close()
        self._connection = None


class ReaderProcess:
    """All pools in one process; `stop` ends them and returns what they saw."""

    def __init__(self, endpoint: Endpoint, pools: tuple[PoolKind, ...] = POOLS) -> None:
        context = multiprocessing.get_context("spawn")
        self._stopping = context.Event()
        self._result, child_end = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_read_all, args=(endpoint, pools, processors()[0], self._stopping, child_end), daemon=True
        )

    def __enter__(self) -> ReaderProcess:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()

    def stop(self) -> Traffic:
        """End the reads and give back what was seen; raises EOFError when the process died."""
        self._stopping.set()
        traffic: Traffic = self._result.recv()
        self._process.join()
        return traffic


def _read_all(
    endpoint: Endpoint, pools: tuple[PoolKind, ...], on_processors: set[int], stopping: Event, result: Any
) -> None:
    os.nice(NICENESS)
    os.sched_setaffinity(0, on_processors)
    sys.setswitchinterval(SWITCH_SECONDS)
    clients = [
        Client(endpoint, kind, 1000 * index + number, stopping.is_set)
        for index, kind in enumerate(pools)
        for number in range(kind.size)
    ]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result.send(
        Traffic(
            [read for client in clients for read in client.traffic.reads],
            [attempt for client in clients for attempt in client.traffic.attempts],
        )
    )


def processors() -> tuple[set[int], set[int]]:
    """Those of the serving replica, the endpoint and the readers; those of all others. One processor is for both."""
    half = len(_USABLE) // 2
    return (set(_USABLE[:half]), set(_USABLE[half:])) if half else (set(_USABLE), set(_USABLE))


class SourceHeartbeat(threading.Thread):
    """Writes the time into one row of the source, four times a second, so that every read shows its staleness."""

    def __init__(self, source: Endpoint) -> None:
        super().__init__(name="source-heartbeat", daemon=True)
        self._source, self._stopping = source, threading.Event()
        self._connection = connect(source)
        query(
            self._connection, "CREATE TABLE IF NOT EXISTS heartbeat (id INT PRIMARY KEY, written_at DOUBLE)"
        )
        self._beat()

    def _beat(self) -> None:
        query(self._connection, f"REPLACE INTO heartbeat VALUES (1, {time.time():.6f})")

    def run(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            self._beat()

    def stop(self) -> None:
        """End the beat."""
        self._stopping.set()
        self.join(5)
        self._connection.close()


def source_endpoint(address: str, readers: Endpoint) -> Endpoint:
    """The source itself, as the user that may write."""
    return Endpoint(
        address,
        3306,
        seed.WRITER_USER,
        seed.WRITER_PASSWORD,
        readers.database,
        readers.tables,
        readers.table_size,
    )


def connect(endpoint: Endpoint) -> Any:
    """A new connection. Raises pymysql's errors and OSError."""
    return pymysql.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        database=endpoint.database,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=QUERY_TIMEOUT_SECONDS,
        write_timeout=QUERY_TIMEOUT_SECONDS,
        autocommit=True,
        ssl=_tls(),
    )


@functools.cache
def _tls() -> ssl.SSLContext:
    """One for all connections, as pools have it: making one takes longer than a query."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the servers sign for themselves
    return context


def query(connection: Any, text: str) -> None:
    """Run a statement."""
    with connection.cursor() as cursor:
        cursor.execute(text)


def query_one(connection: Any, text: str) -> Any:
    """The first column of the first row."""
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchone()[0]
