"""Settings name the places on this host: defaults, and the overrides of /etc/peaker/host.json."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import Any, Dict

from peaker_host.machine.errors import InvalidHostSettings
from peaker_host.machine.understanding import understood

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
    known: Dict[str, Any] = {field.name: field.default for field in fields(Settings)}
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
