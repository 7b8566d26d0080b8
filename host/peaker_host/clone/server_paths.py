"""Where the server of this host keeps what, by its own option files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from peaker_host.database.data_paths import TEMPORARY, data_paths
from peaker_host.machine.errors import CloneRefused
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

_ASK_SECONDS = 60.0
_UNSET = ("", "(No default value)")
# A running server tells where its logs are by other names than the options have.
_BASENAMES = {"log_bin": "log_bin_basename", "relay_log": "relay_log_basename"}


@dataclass(frozen=True)
class ServerPaths:
    """Absolute directories. `places` are all on the volumes, each once, the data directory first."""

    datadir: str
    redo: str
    undo: str
    places: Tuple[str, ...]


def server_paths(settings: Settings, processes: Processes, mount_points: Sequence[str]) -> ServerPaths:
    """As the server would start now, of which only what lies below the mount points is a clone's to make.

    Raises CloneRefused for a place that a clone does not reach.
    """
    variables = _variables(settings, processes)
    datadir = os.path.normpath(settings.datadir)
    given = os.path.normpath(variables.setdefault("datadir", datadir))
    if given != datadir:
        raise CloneRefused(f"datadir of the server is {given}, of host.json {datadir}")
    system = _below(datadir, variables.get("innodb_data_home_dir", ""))
    if system != datadir:
        raise CloneRefused(f"innodb_data_home_dir is {system}: a clone has its tablespaces in {datadir}")
    redo = _below(datadir, variables.get("innodb_log_group_home_dir", ""))
    undo = _below(datadir, variables.get("innodb_undo_directory", ""))
    for name, place in (
        ("datadir", datadir),
        ("innodb_log_group_home_dir", redo),
        ("innodb_undo_directory", undo),
    ):
        if not _is_on(place, mount_points):
            raise CloneRefused(
                f"{name} is {place}, which is on none of the volumes ({', '.join(mount_points)})"
            )
    found = data_paths(variables)
    directories = [one.path if one.is_directory else os.path.dirname(one.path) for one in found]
    directories += [one for name in TEMPORARY if os.path.isabs(one := variables.get(name, ""))]
    return ServerPaths(datadir, redo, undo, tuple(dict.fromkeys(_on(directories, mount_points))))


def _variables(settings: Settings, processes: Processes) -> Dict[str, str]:
    """What `mysqld --verbose --help` prints after its text: a line of dashes, then each option with its value."""
    argv = [settings.mysql_server, f"--user={settings.mysql_user}", "--verbose", "--help"]
    said = processes.run(argv, timeout_seconds=_ASK_SECONDS).stdout
    _, _, table = said.partition("\n---")
    pairs = [line.split(None, 1) for line in table.splitlines()]
    values = {pair[0].replace("-", "_"): pair[1].strip() for pair in pairs if len(pair) == 2}
    return {_BASENAMES.get(name, name): value for name, value in values.items() if value not in _UNSET}


def _on(directories: Sequence[str], mount_points: Sequence[str]) -> List[str]:
    return [one for one in directories if _is_on(one, mount_points)]


def _is_on(place: str, mount_points: Sequence[str]) -> bool:
    return any(place == point or place.startswith(point.rstrip("/") + "/") for point in mount_points)


def _below(datadir: str, directory: str) -> str:
    return os.path.normpath(os.path.join(datadir, directory or "."))
