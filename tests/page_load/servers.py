"""MySQL servers of the local cloud's image as processes of the test, without a namespace of their own."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "nobody"
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/mysql/private", "usr/lib")
_UP_SECONDS = 300.0


@dataclass(frozen=True)
class Programs:
    """`server` and `client` are scripts that run the image's programs with the image's own loader and libraries."""

    server: Path
    client: Path

    @staticmethod
    def of(image: Path, folder: Path, options: Path) -> Programs:
        """`options` is the option file that the server reads, and no other."""
        loader = image / "lib64" / "ld-linux-x86-64.so.2"
        libraries = ":".join(str(image / one) for one in _LIBRARIES)
        started = f"exec {loader} --library-path {libraries} {image}/usr"
        server, client = folder / "mysqld", folder / "mysql"
        basedir = f"--defaults-file={options} --basedir={image}/usr --secure-file-priv=NULL"
        basedir += f" --plugin-dir={image}/usr/lib/mysql/plugin"
        server.write_text(f'#!/bin/sh\n{started}/sbin/mysqld {basedir} "$@"\n')
        client.write_text(f'#!/bin/sh\n{started}/bin/mysql "$@"\n')
        for one in (server, client):
            one.chmod(0o755)
        return Programs(server, client)


@dataclass(frozen=True)
class Server:
    """A server that runs; its administrator comes by the socket, without a password."""

    programs: Programs
    socket: Path
    port: int

    def ask(self, statement: str) -> list[str]:
        """The lines of the answer, without names."""
        argv = [
            str(self.programs.client),
            "--user=root",
            f"--socket={self.socket}",
            "-N",
            "-B",
            "-e",
            statement,
        ]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


@contextmanager
def running(programs: Programs, datadir: Path, folder: Path, port: int, *options: str) -> Iterator[Server]:
    """On a data directory, which is made where it is not there."""
    argv = [
        str(programs.server),
        f"--user={USER}",
        f"--datadir={datadir}",
        "--mysqlx=OFF",
        f"--log-error={folder / f'{port}.log'}",
        *options,
    ]
    if not any(datadir.glob("*.ibd")):
        subprocess.run([*argv, "--initialize-insecure"], check=True)
    socket = folder / f"{port}.sock"
    own = [
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--socket={socket}",
        f"--pid-file={folder / f'{port}.pid'}",
    ]
    process = subprocess.Popen([*argv, *own])
    try:
        server = Server(programs, socket, port)
        _await(server, process)
        yield server
    finally:
        process.terminate()
        process.wait()


def _await(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _UP_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.ask("SELECT 1")
            return
        except subprocess.CalledProcessError:
            time.sleep(0.1)
    raise AssertionError(f"the server at {server.socket} does not answer, exit code {process.poll()}")


@contextmanager
def place() -> Iterator[Path]:
    """A folder that the servers' user may enter: pytest's own are shut to others whenever another session begins."""
    with tempfile.TemporaryDirectory(prefix="peaker-servers-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def given_to_servers(path: Path) -> Path:
    """A new folder of the servers' user."""
    path.mkdir()
    subprocess.run(["chown", USER, str(path)], check=True)
    return path
