"""`peaker init` asks a replica that has nothing of Peaker's: what lies on its volumes, and what its server says.

The module comes there by itself, with those that it imports, and changes nothing.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from peaker_host.database.client_statements import measure_service
from peaker_host.database.data_paths import data_mounts
from peaker_host.database.mysql_client import MysqlClient, admin_client
from peaker_host.layouts.discover import discover
from peaker_host.machine.errors import HostError
from peaker_host.machine.settings import Machine
from peaker_host.replicate.source_login import source_binlog_expire_seconds

SeenT = TypeVar("SeenT")
_WINDOW_SECONDS = 10.0
_OF_THE_SYSTEM = ("/", "/boot", "/boot/efi")


def describe_base(machine: Machine, sleep: Callable[[float], None] = time.sleep) -> Dict[str, Any]:
    """Returns engine, version, port, the source's retention, the reads, and each data filesystem with its volumes.

    What cannot be read is None, and `unknown` says why.
    """
    client = admin_client(machine)
    unknown: Dict[str, str] = {}

    def seen(name: str, look: Callable[[], SeenT]) -> Optional[SeenT]:
        try:
            return look()
        except (HostError, OSError) as error:
            unknown[name] = str(error)[:500]
            return None

    server = seen("server", lambda: _server(client)) or {}
    machine = replace(
        machine, engine=server.get("engine", "mysql"), datadir=server.get("datadir") or machine.datadir
    )
    places = seen("places", lambda: data_mounts(client)) if server else None
    kept = seen("retention", lambda: source_binlog_expire_seconds(machine, client)) if server else None
    load = seen("load", lambda: _load(client, sleep)) if server else None
    return {
        **server,
        "binlog_expire_seconds": kept,
        **(load or {}),
        "mounts": seen("mounts", lambda: _filesystems(machine, places)),
        "unknown": unknown,
    }


def _server(client: MysqlClient) -> Dict[str, Any]:
    said = client.json(
        {"version": "@@GLOBAL.version", "port": "@@GLOBAL.port", "datadir": "@@GLOBAL.datadir"}
    )
    engine = "mariadb" if "mariadb" in str(said["version"]).lower() else "mysql"
    return {**said, "engine": engine}


def _load(client: MysqlClient, sleep: Callable[[float], None]) -> Dict[str, Any]:
    """Counts the clients' statements a second, and the processors' busy share in the same seconds."""
    before = _processor_ticks()
    found = measure_service(client, _WINDOW_SECONDS, sleep)
    after = _processor_ticks()
    all_ticks = after[1] - before[1]
    return {
        "reads_per_second": found["queries"] / _WINDOW_SECONDS if found["measurable"] else None,
        "busy_share": (after[0] - before[0]) / all_ticks if all_ticks else None,
    }


def _processor_ticks() -> Tuple[int, int]:
    """Busy and all ticks (proc(5)): idle and iowait are the fourth and the fifth."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(one) for one in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _filesystems(machine: Machine, places: Optional[List[str]]) -> List[Dict[str, Any]]:
    """The data filesystems; without the server's word all that are not the system's."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        mounted = {fields[1]: fields for fields in (line.split() for line in file)}
    data = [
        one for one, fields in mounted.items() if fields[2] in ("xfs", "ext4") and one not in _OF_THE_SYSTEM
    ]
    return [_filesystem(machine, mounted[one]) for one in places or data if one in mounted]


def _filesystem(machine: Machine, fields: List[str]) -> Dict[str, Any]:
    """A disk of Xen does not tell its volume: there the device's name must do."""
    device, point, kind = fields[:3]
    found: Dict[str, Any] = {"mount_point": point, "filesystem": kind, "device": device}
    try:
        stacks = discover(machine, [point])
    except (HostError, OSError) as error:
        return {**found, "unsupported": str(error)}
    for stack in stacks:
        found.update(layout=stack.kind, volume_ids=stack.volume_ids)
    return found


def main(admin_defaults_file: str) -> None:
    """Prints the description as a command's result line."""
    machine = Machine()
    machine = replace(machine, admin_defaults_file=admin_defaults_file or machine.admin_defaults_file)
    try:
        said: Dict[str, Any] = {**describe_base(machine), "ok": True}
    except Exception as error:  # the top boundary: reported by name, never swallowed
        said = {"ok": False, "error": type(error).__name__, "message": str(error)}
    print(json.dumps({"version": 1, "command": "describe_base", **said}), flush=True)
