"""MySQL servers of the local cloud's image, in its changed root: several beside each other, on the loopback alone."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

OWNER = 27306


class Server:
    """A server with its data in /srv/NAME of the root; its administrator comes by the socket, without a password."""

    def __init__(self, root: Path, name: str, number: int, *options: str) -> None:
        self.root, self.name = root, name
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._argv = [
            *("chroot", str(root), "/usr/sbin/mysqld", "--no-defaults", "--user=mysql"),
            *(f"--datadir=/srv/{name}", "--innodb-buffer-pool-size=32M", "--mysqlx=OFF"),
            *("--gtid-mode=ON", "--enforce-gtid-consistency=ON", f"--server-id={number}"),
            *(f"--socket=/srv/{name}.sock", "--bind-address=127.0.0.1", f"--port={self.port}"),
            *(f"--pid-file=/srv/{name}.pid", f"--log-error=/srv/{name}.err", *options),
        ]
        (root / "srv" / f"{name}.cnf").write_text(f"[client]\nuser=root\nsocket=/srv/{name}.sock\n")
        self.process: subprocess.Popen[bytes] | None = None

    def initialise(self) -> None:
        (self.root / "srv" / self.name).mkdir()
        shutil.chown(self.root / "srv", OWNER, OWNER)
        shutil.chown(self.root / "srv" / self.name, OWNER, OWNER)
        subprocess.run([*self._argv, "--initialize-insecure"], check=True, capture_output=True)

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv)
        wait_until(lambda: self.sql("SELECT 1", check=False) == "1", 120)

    def stop(self) -> None:
        """In order, as its unit stops it."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(120)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    def sql(self, text: str, check: bool = True) -> str:
        argv = ["chroot", str(self.root), "mysql", f"--defaults-file=/srv/{self.name}.cnf", "-NB"]
        said = subprocess.run(argv, input=text, capture_output=True, text=True, check=check)
        return said.stdout.strip()

    def python(self, program: str) -> str:
        """The last line of a program with the host package, whose `machine` is this server's."""
        given = (
            "from peaker_host.machine.settings import Machine\n"
            f"machine = Machine(admin_defaults_file='/srv/{self.name}.cnf', datadir='/srv/{self.name}',"
            " state_dir='/srv/state')\n"
        )
        argv = ["chroot", str(self.root), "env", "PYTHONPATH=/opt/tried", "python3", "-c", given + program]
        said = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr[-2000:]
        return said.stdout.splitlines()[-1]


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
