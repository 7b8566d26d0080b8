"""A donor that serves, and a host with an empty volume for its data and one for its logs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from host_bench import MIB, RUN_ID, Host, Volume, unmount

from cloud_rig.real_machine import IMAGES
from localcloud.hosts.images import MYSQL_IMAGE_ID, ensure_image, image_root
from tests.clone.servers import USER, Programs, Server, given_to_servers, place, running

LOGIN = {"user": "peaker_clone", "password": "it's a \\ secret"}
PASSWORD = r"'it''s a \\ secret'"
DATA_UUID = "5a1c0de5-0000-4000-8000-00000000da7a"
ROWS = 2000
SIZE = 512 * MIB


@dataclass(frozen=True)
class Replica:
    """The host that is to become a replica, and its volumes: data, log."""

    host: Host
    programs: Programs
    data: Volume
    log: Volume
    donor: Server

    @property
    def datadir(self) -> Path:
        return Path(self.host.settings.datadir)

    def arguments(self, command: str, rate_mib_per_s: int = 1000) -> list[str]:
        stack = {
            "mount_point": str(self.datadir),
            "filesystem": "xfs",
            "uuid": DATA_UUID,
            "size_bytes": SIZE,
            "kind": "single",
            "arrays": [],
            "logical_volume": None,
            "volumes": [{"volume_id": "vol-0000000000000d0d0", "size_bytes": SIZE, "label": ""}],
        }
        return [
            *(command, "--run-id", RUN_ID, "--volumes", self.volumes, "--layout", json.dumps([stack])),
            *("--donor-host", "127.0.0.1", "--donor-port", str(self.donor.port)),
            *("--rate-mib-per-s", str(rate_mib_per_s)),
        ]

    def argv(self, command: str, rate_mib_per_s: int = 1000) -> list[str]:
        """The command as a program."""
        package = [sys.executable, "-m", "peaker_host", "--settings", str(self.host.settings_path)]
        return [*package, *self.arguments(command, rate_mib_per_s)]

    @property
    def volumes(self) -> str:
        """The parameter, as a workflow gives it."""
        places = (("data", self.data, self.datadir, "xfs"), ("log", self.log, self.logs, "ext4"))
        return json.dumps(
            [
                {"name": name, "volume_id": volume.volume_id, "device": "/dev/sdf", "mount_point": str(place)}
                | {"filesystem": kind}
                for name, volume, place, kind in places
            ]
        )

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Both volumes at their places."""
        with contextlib.ExitStack() as mounts:
            for volume, place in ((self.data, self.datadir), (self.log, self.logs)):
                subprocess.run(["mount", volume.path, str(place)], check=True)
                mounts.callback(unmount, place)
            yield

    @property
    def environment(self) -> dict[str, str]:
        """Of a process on this host: its own systemctl and restorecon come first."""
        package = str(Path(__file__).resolve().parents[2] / "host")
        return {**os.environ, "PYTHONPATH": package, "PATH": f"{self.host.root / 'bin'}:{os.environ['PATH']}"}

    def said(self, program: str) -> list[str]:
        """What systemctl or restorecon was given, call by call, and whether the data directory was mounted."""
        path = self.host.root / f"{program}.log"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def logs(self) -> Path:
        return self.host.root / "logs"


@pytest.fixture(scope="module")
def image() -> Path:
    if os.geteuid() != 0:
        pytest.skip("images need root")
    ensure_image(MYSQL_IMAGE_ID, IMAGES)
    return Path(image_root(IMAGES, MYSQL_IMAGE_ID))


@pytest.fixture(scope="module")
def donor(image: Path) -> Iterator[Server]:
    """With the plugin, and a user who may clone."""
    with place() as at, donor_at(image, given_to_servers(at / "donor")) as server:
        yield server


@contextlib.contextmanager
def donor_at(image: Path, folder: Path) -> Iterator[Server]:
    given_to_servers(folder / "data")
    options = folder / "my.cnf"
    options.write_text(
        "[mysqld]\ngtid_mode=ON\nenforce_gtid_consistency=ON\nplugin_load_add=mysql_clone.so\n"
    )
    with running(Programs.of(image, folder, options), folder / "data", folder, free_port()) as server:
        server.ask("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, body TEXT)")
        rows = ",".join(f"({number}, REPEAT('{number}', 900))" for number in range(ROWS))
        server.ask(f"INSERT INTO shop.orders VALUES {rows}")
        server.ask(f"CREATE USER {LOGIN['user']}@'%' IDENTIFIED BY {PASSWORD}")
        server.ask(f"GRANT BACKUP_ADMIN ON *.* TO {LOGIN['user']}@'%'")
        server.ask("SET GLOBAL innodb_buffer_pool_dump_now = ON")
        yield server


@pytest.fixture
def replica(image: Path, donor: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replica]:
    """Its volumes are empty."""
    with place() as at, new_replica(image, at, donor) as one:
        monkeypatch.setenv("PATH", one.environment["PATH"])
        yield one


@pytest.fixture(scope="module")
def cloned(image: Path, donor: Server) -> Iterator[Replica]:
    """A replica that was cloned by an engine in a process of its own, and the engine's last word."""
    with place() as at, new_replica(image, at, donor) as one:
        done = subprocess.run(
            one.argv("clone_database"), env=one.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield one


@contextlib.contextmanager
def new_replica(image: Path, folder: Path, donor: Server) -> Iterator[Replica]:
    """Its option file has the redo log and the binary log on a volume of their own."""
    with contextlib.ExitStack() as volumes:
        host = Host(folder, volumes)
        given_to_servers(folder / "server")
        options, logs = folder / "server" / "my.cnf", folder / "logs"
        options.write_text(
            f"[mysqld]\ndatadir={folder / 'data'}\ninnodb_log_group_home_dir={logs / 'redo'}\n"
            f"log_bin={logs / 'binlog' / 'binlog'}\ngtid_mode=ON\nenforce_gtid_consistency=ON\n"
            "read_only=ON\nsuper_read_only=ON\nplugin_load_add=mysql_clone.so\n"
        )
        (folder / "bin").mkdir()
        for name in ("systemctl", "restorecon"):
            script = folder / "bin" / name
            mounted = f"mountpoint -q {folder / 'data'} && echo mounted || echo free"
            script.write_text(f'#!/bin/sh\necho "$@" "$({mounted})" >>{folder / name}.log\n')
            script.chmod(0o755)
        programs = Programs.of(image, folder / "server", options)
        login = folder / "clone.json"
        login.write_text(json.dumps(LOGIN))
        host.configure(
            mysql_client=str(programs.client),
            mysql_server=str(programs.server),
            mysql_user=USER,
            clone_credentials_file=str(login),
        )
        yield Replica(host, programs, host.volume(SIZE), host.volume(SIZE), donor)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
