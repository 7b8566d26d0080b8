"""Where the server of this host keeps what, by its own option files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict

from peaker_host.machine.errors import CloneRefused
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

_ASK_SECONDS = 60.0
_UNSET = ("", "(No default value)")


@dataclass(frozen=True)
class ServerPaths:
    """Absolute directories. `logs` are those of the binary and relay logs."""

    datadir: str
    redo: str
    undo: str
    logs: "tuple[str, ...]"

    @property
    def all(self) -> "tuple[str, ...]":
        """Each once, the data directory first."""
        return tuple(dict.fromkeys((self.datadir, self.redo, self.undo, *self.logs)))


def server_paths(settings: Settings, processes: Processes) -> ServerPaths:
    """As the server would start now. Raises CloneRefused for a place that a clone does not reach."""
    found = _options(settings, processes)
    datadir = os.path.normpath(settings.datadir)
    given = os.path.normpath(found.get("datadir", datadir))
    if given != datadir:
        raise CloneRefused(f"datadir of the server is {given}, of host.json {datadir}")
    system = _below(datadir, found.get("innodb-data-home-dir"))
    if system != datadir:
        raise CloneRefused(f"innodb_data_home_dir is {system}: a clone has its tablespaces in {datadir}")
    logs = [os.path.dirname(found[name]) for name in ("log-bin", "relay-log") if name in found]
    return ServerPaths(
        datadir,
        _below(datadir, found.get("innodb-log-group-home-dir")),
        _below(datadir, found.get("innodb-undo-directory")),
        tuple(_below(datadir, directory) for directory in logs),
    )


def _options(settings: Settings, processes: Processes) -> Dict[str, str]:
    """What `mysqld --verbose --help` prints after its text: a line of dashes, then each variable with its value."""
    argv = [settings.mysql_server, f"--user={settings.mysql_user}", "--verbose", "--help"]
    said = processes.run(argv, timeout_seconds=_ASK_SECONDS).stdout
    _, _, table = said.partition("\n---")
    pairs = [line.split(None, 1) for line in table.splitlines()]
    values = {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
    return {name: value for name, value in values.items() if value not in _UNSET}


def _below(datadir: str, directory: "str | None") -> str:
    return os.path.normpath(os.path.join(datadir, directory or "."))
