"""These checks decide whether a server that others built can be a donor. They change nothing.

The rules are those of prepare_donor, asked before the first run instead of in it, and what its copies will need: GTIDs,
a server_id of its own, binary logs that its source keeps long enough.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from peaker_host.database.client_statements import NOT_COUNTED, counts_statements
from peaker_host.database.data_paths import refuse_outside
from peaker_host.database.mysql_client import MysqlClient
from peaker_host.database.replica_status import DIALECTS, only_channel, read_status
from peaker_host.donor.prepare_donor import data_directories, refuse_source
from peaker_host.layouts.image_fit import donor_facts, needs
from peaker_host.machine.devices import read_mounts
from peaker_host.machine.errors import (
    DatabaseUnreachable,
    DonorIsSource,
    HostError,
    UnclearAnswer,
    understood,
)
from peaker_host.machine.settings import Machine, Settings
from peaker_host.replicate.errant import describe_errant, look_for_errant
from peaker_host.replicate.replication import HEARTBEAT_PERIOD_SECONDS
from peaker_host.replicate.source_login import source_binlog_expire_seconds

DONE, THERE, WARNING, REFUSED = "done", "already there", "warning", "refused"


@dataclass(frozen=True)
class Step:
    """A step of prepare_base: done (made now), already there, warning or refused.

    `remedy` says what the owner of the server does about a warning or a refusal.
    """

    name: str
    state: str
    detail: str
    remedy: str = ""


class Refusal(Exception):
    """A check found something that its owner must change first."""

    state = REFUSED

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class Warned(Refusal):
    """A check found something that works, and will hurt one day."""

    state = WARNING


def looked(name: str, look: Callable[[], str], state: str = THERE) -> Step:
    """Runs a check, or what makes something, and returns its step in this state; refused, or a warning, with why."""
    try:
        with understood(UnclearAnswer, "what the server says"):
            return Step(name, state, look())
    except Refusal as refusal:
        return Step(name, refusal.state, refusal.detail, refusal.remedy)
    except HostError as error:
        return Step(name, REFUSED, f"{type(error).__name__}: {error}")


def refused(steps: Sequence[Step]) -> Sequence[Step]:
    return [step for step in steps if step.state == REFUSED]


def as_result(steps: Sequence[Step]) -> Dict[str, Any]:
    """The steps as they go into the result line, and whether anything was changed."""
    return {"steps": [asdict(step) for step in steps], "changed": any(step.state == DONE for step in steps)}


# MySQL 8.4 and MariaDB 10.11 are the oldest whose statements the package speaks (README).
OLDEST = {"mysql": (8, 4), "mariadb": (10, 11)}
# A cut network shows after 2.5 heartbeats (health/sample.py), a fault to the load balancer within 22 s.
_LONGEST_HEARTBEAT_SECONDS = 10.0
_HEARTBEATS = {
    "mysql": "SELECT HEARTBEAT_INTERVAL AS seconds FROM performance_schema.replication_connection_configuration"
    " LIMIT 1",
    "mariadb": "SELECT VARIABLE_VALUE AS seconds FROM information_schema.GLOBAL_STATUS"
    " WHERE VARIABLE_NAME = 'SLAVE_HEARTBEAT_PERIOD'",
}
# `library` is a reserved word from MySQL 9.2 on.
_LOADED_PLUGINS = (
    "SELECT PLUGIN_NAME AS plugin, PLUGIN_LIBRARY AS loaded_from FROM information_schema.PLUGINS"
    # That of clones comes with every server.
    " WHERE PLUGIN_LIBRARY IS NOT NULL AND PLUGIN_NAME <> 'clone' AND PLUGIN_STATUS = 'ACTIVE' ORDER BY PLUGIN_NAME"
)


@dataclass(frozen=True)
class Filesystem:
    """A filesystem is the mount point and kind (xfs or ext4) of a cluster's volume."""

    mount_point: str
    filesystem: str


@dataclass(frozen=True)
class ServerFacts:
    """These facts of the server go into host.json and admin.cnf."""

    version: str
    datadir: str
    socket: str


@understood(UnclearAnswer, "what the server says of itself")
def read_facts(client: MysqlClient) -> ServerFacts:
    said = client.json(
        {"version": "@@GLOBAL.version", "datadir": "@@GLOBAL.datadir", "socket": "@@GLOBAL.socket"}
    )
    return ServerFacts(
        str(said["version"]), os.path.normpath(str(said["datadir"])), str(said["socket"] or "")
    )


def look_at_server(
    machine: Machine,
    client: MysqlClient,
    facts: ServerFacts,
    filesystems: Tuple[Filesystem, ...],
    least_binlog_seconds: int,
    mounts: Optional[Dict[str, str]] = None,
) -> List[Step]:
    """One step for each thing that a donor or its copies need. `mounts`: filesystem by mount point, of this host."""
    engine = machine.engine
    places = {one.point: one.kind for one in read_mounts()} if mounts is None else mounts
    return [
        looked("version", lambda: _version(engine, facts.version)),
        looked("replication", lambda: _replication(client, engine)),
        looked("gtid", lambda: _gtid(client, engine)),
        looked("server_id", lambda: _server_id(client, engine)),
        looked("volumes", lambda: _volumes(client, engine, filesystems, places)),
        looked("binary logs", lambda: _binary_logs(machine, client, least_binlog_seconds)),
        # MariaDB's replicas join by position.
        *([looked("errant transactions", lambda: _errant(machine, client))] if engine == "mysql" else []),
        looked("heartbeat", lambda: _heartbeat(client, engine)),
        looked("plugins", lambda: _plugins(client)),
        looked("image of its copies", lambda: _image_needs(machine, client)),
        looked("client statements", lambda: _client_statements(client)),
    ]


def _image_needs(settings: Settings, client: MysqlClient) -> str:
    return needs(donor_facts(client, settings.engine, data_directories(client, settings)))


def _client_statements(client: MysqlClient) -> str:
    if counts_statements(client):
        return "performance_schema counts them"
    remedy = "set performance_schema = ON in the server's configuration file (my.cnf) and restart it"
    raise Warned(NOT_COUNTED, remedy)


def look_at_unit(machine: Machine) -> Step:
    """Checks that systemd knows the running server and starts it again after a reboot."""
    unit = machine.mysql_service

    def look() -> str:
        if not machine.systemctl("is-active", unit):
            raise Warned(
                f"no active unit {unit}",
                "name the unit that runs the server as mysql_service in /etc/peaker/host.json",
            )
        if not machine.systemctl("is-enabled", unit):
            raise Warned(f"{unit} runs, but would not after a reboot", f"systemctl enable {unit}")
        return f"{unit} runs and is enabled"

    return looked("unit", look)


@understood(UnclearAnswer, "what the server says of itself")
def server_numbers(client: MysqlClient, engine: str) -> Dict[str, Any]:
    """Returns what is compared between a cluster's servers: server_id and source; None where it is not known."""
    try:
        status = read_status(client, engine)
        own = int(client.json({"server_id": "@@GLOBAL.server_id"})["server_id"])
    except DatabaseUnreachable:
        return {"server_id": None, "source_host": None}
    return {"server_id": own, "source_host": status.source_host if status else None}


def _version(engine: str, version: str) -> str:
    found = "mariadb" if "mariadb" in version.lower() else "mysql"
    if found != engine:
        raise Refusal(
            f"this server is {version}, the cluster's engine is {engine}",
            f"set engine: {found} in the environment's file and deploy, or give another instance",
        )
    numbers = re.match(r"(\d+)\.(\d+)", version)
    oldest = OLDEST[engine]
    if numbers is None or (int(numbers.group(1)), int(numbers.group(2))) < oldest:
        raise Refusal(
            f"{version} is too old", f"upgrade to {'.'.join(str(part) for part in oldest)} or newer"
        )
    return version


def _replication(client: MysqlClient, engine: str) -> str:
    try:
        status = refuse_source(client, engine)
    except DonorIsSource as error:
        name = "super_read_only" if engine == "mysql" else "read_only"
        raise Refusal(
            str(error),
            f"on a replica: {_set_for_good(engine)} {name} = ON, and in its configuration file; the source is never "
            "prepared",
        ) from error
    lag = "unknown" if status.lag_seconds is None else f"{status.lag_seconds} s"
    return f"follows {status.source_host}, read-only, lag {lag}"


def _set_for_good(engine: str) -> str:
    """MariaDB keeps nothing: what is set there must go into its configuration file too."""
    return "SET PERSIST" if engine == "mysql" else "SET GLOBAL"


def _channel_row(client: MysqlClient, engine: str) -> Dict[str, Optional[str]]:
    only_channel(client, engine)
    rows = client.rows(DIALECTS[engine].show_status)
    if not rows:
        raise Refusal("no replication channel", "give a replica that follows the cluster's source")
    return rows[0]


def _gtid(client: MysqlClient, engine: str) -> str:
    row = _channel_row(client, engine)
    if engine == "mariadb":
        if row.get("Using_Gtid") in ("Slave_Pos", "Current_Pos"):
            return f"the channel uses {row['Using_Gtid']}"
        raise Refusal(
            f"the channel does not use GTIDs (Using_Gtid: {row.get('Using_Gtid')})",
            "STOP SLAVE; CHANGE MASTER TO MASTER_USE_GTID = slave_pos; START SLAVE",
        )
    mode = str(client.json({"mode": "@@GLOBAL.gtid_mode"})["mode"])
    if mode != "ON":
        raise Refusal(
            f"gtid_mode is {mode}",
            "turn GTIDs on in the whole cluster (MySQL manual, changing the GTID mode online)",
        )
    if row.get("Auto_Position") != "1":
        raise Refusal(
            "the channel follows by file and position, not by GTID",
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1; START REPLICA",
        )
    return "gtid_mode is ON, the channel uses it"


def _server_id(client: MysqlClient, engine: str) -> str:
    own = int(client.json({"server_id": "@@GLOBAL.server_id"})["server_id"])
    source = _channel_row(client, engine).get(f"{DIALECTS[engine].prefix}_Server_Id")
    remedy = "give each server of the cluster a server_id of its own"
    if own == 0:
        raise Refusal("server_id is 0", remedy)
    if source is not None and int(source) == own:
        raise Refusal(f"server_id is {own}, which is also its source's", remedy)
    return f"{own}" if source is None else f"{own}, its source's is {source}"


def _volumes(
    client: MysqlClient, engine: str, filesystems: Tuple[Filesystem, ...], mounts: Dict[str, str]
) -> str:
    for wanted in filesystems:
        found = mounts.get(os.path.normpath(wanted.mount_point))
        if found is None:
            raise Refusal(
                f"nothing is mounted at {wanted.mount_point}",
                "mount the cluster's volumes where its settings say, or change mount_point in the environment's file",
            )
        if found != wanted.filesystem:
            raise Refusal(
                f"{wanted.mount_point} is {found}, the settings say {wanted.filesystem}",
                f"set filesystem: {found} in the environment's file, if it is xfs or ext4",
            )
    refuse_outside(client, engine, [one.mount_point for one in filesystems], list(mounts))
    return f"all data is on {', '.join(one.mount_point for one in filesystems)}"


def _binary_logs(machine: Machine, client: MysqlClient, least_seconds: int) -> str:
    kept = source_binlog_expire_seconds(machine, client)
    if kept is None:
        raise Warned(
            "how long the source keeps its binary logs is unknown: its login is refused or not known here",
            f"see on the source that binlog_expire_logs_seconds is at least {least_seconds}",
        )
    if kept and kept < least_seconds:
        raise Warned(
            f"the source keeps them for {kept} s, a build may take {least_seconds} s",
            f"on the source: {_set_for_good(machine.engine)} binlog_expire_logs_seconds = {least_seconds}",
        )
    return "the source keeps them for ever" if kept == 0 else f"the source keeps them for {kept} s"


def _errant(machine: Machine, client: MysqlClient) -> str:
    look = look_for_errant(machine, client, lambda _text: None)
    if look.errant:
        raise Refusal(
            f"{describe_errant(look.errant)}; no copy of it could follow the source",
            "on the source, for each of them: SET gtid_next = '<uuid>:<number>'; BEGIN; COMMIT; SET gtid_next = "
            "AUTOMATIC, where what they wrote may stay on this replica alone; else build the replica anew",
        )
    if look.errant is None:
        raise Warned(
            f"unknown: the source cannot be asked; {look.own} transactions were written on this server itself",
            "see on the source that GTID_SUBTRACT(<gtid_executed of this server>, @@GLOBAL.gtid_executed) is empty",
        )
    return "none: the source has every transaction of this server"


def _heartbeat(client: MysqlClient, engine: str) -> str:
    try:
        rows: List[Dict[str, Any]] = client.rows(_HEARTBEATS[engine])
    except DatabaseUnreachable:
        rows = []
    seconds = float(rows[0]["seconds"]) if rows and rows[0]["seconds"] is not None else None
    if seconds is not None and 0 < seconds <= _LONGEST_HEARTBEAT_SECONDS:
        return f"every {seconds:g} s"
    shown = "unknown" if seconds is None else f"every {seconds:g} s" if seconds else "off"
    stop, start, option = (
        ("STOP REPLICA", "START REPLICA", "REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD")
        if engine == "mysql"
        else ("STOP SLAVE", "START SLAVE", "MASTER TO MASTER_HEARTBEAT_PERIOD")
    )
    raise Warned(
        f"{shown}: a cut network shows late",
        f"{stop}; CHANGE {option} = {HEARTBEAT_PERIOD_SECONDS}; {start}",
    )


def _plugins(client: MysqlClient) -> str:
    """A copy's server loads what its donor's data dictionary names, out of the image's own plugin directory."""
    rows = client.rows(_LOADED_PLUGINS)
    if not rows:
        return "none from a library"
    shown = ", ".join(f"{row['plugin']} ({row['loaded_from']})" for row in rows)
    keys = [str(row["plugin"]) for row in rows if "key" in str(row["plugin"]).lower()]
    keyring = f"; and give it the keys of {', '.join(keys)}, which no snapshot of data holds" if keys else ""
    raise Warned(shown, f"see that the image of the peak replicas has these libraries{keyring}")
