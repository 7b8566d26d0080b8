"""The host: its settings (defaults, and the overrides of /etc/peaker/host.json) and the edge to its other programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Optional, Sequence

from peaker_host.machine.errors import (
    CommandFailed,
    InvalidHostSettings,
    ReplicationNotConfigured,
    ToolMissing,
    understood,
    whole,
)
from peaker_host.machine.files import read_json

DEFAULT_PATH = "/etc/peaker/host.json"
ENGINES = ("mysql", "mariadb")


@dataclass(frozen=True)
class Settings:
    """The host's own facts. Every field may be set in host.json; unknown fields are refused."""

    engine: str = "mysql"
    mysql_service: str = "mysql"
    mysql_client: str = "mysql"
    mysql_server: str = "mysqld"
    mysql_user: str = "mysql"
    config_dir: str = "/etc/mysql/conf.d"
    admin_defaults_file: str = "/etc/peaker/admin.cnf"
    replication_credentials_file: str = "/etc/peaker/replication.json"
    datadir: str = "/var/lib/mysql"
    error_log: str = "/var/log/mysql/error.log"
    state_dir: str = "/var/lib/peaker"
    by_id_dir: str = "/dev/disk/by-id"
    unit_dir: str = "/etc/systemd/system"
    health_port: int = 9200
    health_address: str = ""
    health_defaults_file: str = "/etc/peaker/health.cnf"
    health_policy_file: str = "/etc/peaker/health.json"
    agent_config: str = "/etc/amazon/ssm/amazon-ssm-agent.json"

    def state_path(self, name: str) -> str:
        """A file of the state directory, which is made."""
        os.makedirs(self.state_dir, exist_ok=True)
        return os.path.join(self.state_dir, name)

    def run_path(self, run_id: str, name: str) -> str:
        """A file that belongs to one run; the directory is made."""
        directory = os.path.join(self.state_dir, "runs", run_id)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        return os.path.join(directory, name)


@dataclass(frozen=True)
class Completed:
    exit_code: int
    stdout: str
    stderr: str


class Processes:
    """Runs programs with a fixed locale, so that their output can be parsed."""

    def run(
        self,
        argv: Sequence[str],
        *,
        input_text: Optional[str] = None,
        timeout_seconds: float = 60.0,
        check: bool = True,
        environment: Optional[Dict[str, str]] = None,
    ) -> Completed:
        """Run a program to its end.

        Raises ToolMissing when it is not installed, CommandFailed when it does not end within
        `timeout_seconds` or, with `check`, ends with another exit code than 0.
        """
        try:
            done = subprocess.run(
                list(argv),
                input=None if input_text is None else input_text.encode("utf-8", "replace"),
                stdin=subprocess.DEVNULL if input_text is None else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=timeout_seconds,
                env=_environment(environment),
                check=False,
            )
        except FileNotFoundError as error:
            raise ToolMissing(f"{argv[0]} is not installed on this host") from error
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{argv[0]} did not end within {timeout_seconds:g} s") from error
        # As it is: read as text, a carriage return within a value would end the line that it stands in.
        stdout, stderr = (said.decode("utf-8", "replace") for said in (done.stdout, done.stderr))
        if check and done.returncode != 0:
            said = (stderr or stdout).strip()[-_ERROR_TAIL_CHARACTERS:]
            raise CommandFailed(f"{argv[0]} ended with exit code {done.returncode}: {said}")
        return Completed(done.returncode, stdout, stderr)

    def start(self, argv: Sequence[str]) -> "subprocess.Popen[str]":
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(None),
                encoding="utf-8",
                errors="replace",
            )
        except FileNotFoundError as error:
            raise ToolMissing(f"{argv[0]} is not installed on this host") from error

    def start_detached(self, argv: Sequence[str], log_path: str) -> int:
        """Start a program in a session of its own that lives on when this one ends. Returns its process id."""
        with open(log_path, "ab") as log:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                close_fds=True,
                cwd="/",
            )
        return child.pid


@dataclass(frozen=True)
class Machine(Settings):
    """The machine that a command runs on: its settings, and the edge to its other programs."""

    processes: Processes = field(default_factory=Processes)

    def systemctl(self, verb: str, unit: str, timeout_seconds: float = 60.0) -> bool:
        """Tells whether systemctl ended well. Raises ToolMissing, and CommandFailed when it does not end in time."""
        argv = ["systemctl", verb, unit]
        return self.processes.run(argv, timeout_seconds=timeout_seconds, check=False).exit_code == 0

    @staticmethod
    def of(settings: Settings, processes: Processes) -> "Machine":
        return Machine(**{**vars(settings), "processes": processes})


def load_settings(path: str = "") -> Settings:
    """Read host.json; a missing file means the defaults.

    Raises InvalidHostSettings with the field named.
    """
    path = path or os.environ.get("PEAKER_HOST_SETTINGS", DEFAULT_PATH)
    try:
        with open(path, encoding="utf-8") as file, understood(InvalidHostSettings, path):
            content = json.load(file)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise InvalidHostSettings(f"{path}: {error}") from error
    return _settings_from(content, path)


def _settings_from(content: Any, path: str) -> Settings:
    if not isinstance(content, dict):
        raise InvalidHostSettings(f"{path}: must hold one JSON object")
    known: Dict[str, Any] = {one.name: one.default for one in fields(Settings)}
    for name, value in content.items():
        if name not in known:
            raise InvalidHostSettings(
                f"{path}: unknown field {name[:60]!r}; known are {', '.join(sorted(known))}"
            )
        if type(value) is not type(known[name]):
            raise InvalidHostSettings(f"{path}: {name} must be of type {type(known[name]).__name__}")
    settings = Settings(**content)
    if settings.engine not in ENGINES:
        raise InvalidHostSettings(
            f"{path}: engine must be one of {', '.join(ENGINES)}, not {settings.engine[:60]!r}"
        )
    return settings


_ERROR_TAIL_CHARACTERS = 600


def package_command() -> List[str]:
    """Returns the command line that calls this package again."""
    entry = os.path.abspath(sys.argv[0])
    if entry.endswith(".pyz"):
        return [sys.executable or "python3", entry]
    return [sys.executable or "python3", "-m", "peaker_host"]


def package_place() -> str:
    """Returns the place from which this package is imported."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _environment(extra: Optional[Dict[str, str]]) -> Dict[str, str]:
    merged = dict(os.environ)
    merged.update({"LC_ALL": "C", "S_TIME_FORMAT": "ISO"})
    merged.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    merged.update(extra or {})
    return merged


@dataclass(frozen=True)
class ReplicationLogin:
    """`port` is None where the file leaves it to the channel."""

    user: str
    password: str = field(repr=False)
    port: Optional[int] = None


def read_login(settings: Settings) -> Optional[ReplicationLogin]:
    """Reads the login that the image brings in a file of its own; None without it.

    Raises InvalidHostSettings, UnreadableFile.
    """
    path = settings.replication_credentials_file
    content = read_json(path) if os.path.exists(path) else None
    if content is None:
        return None
    user, password, port = content.get("user"), content.get("password"), content.get("port")
    if not isinstance(user, str) or not isinstance(password, str):
        raise InvalidHostSettings(f"{path}: needs the texts user and password")
    with understood(InvalidHostSettings, path):
        return ReplicationLogin(user, password, whole(port, "the port", 1, 65535) if port else None)


def refuse_without_login(settings: Settings) -> None:
    """Refuses an image without a usable login before hours of prewarm: a copy of a MariaDB holds no password
    of its channel.

    Raises ReplicationNotConfigured, InvalidHostSettings, UnreadableFile.
    """
    path = settings.replication_credentials_file
    if read_login(settings) is None and settings.engine == "mariadb":
        raise ReplicationNotConfigured(
            f"no replication user: {path} is not there, and the data directory of a MariaDB keeps no password. Put "
            '{"user": "...", "password": "..."} there in the image of the peak replicas, readable by root alone'
        )
