"""A copy's own identity: what it must not keep of its donor, and what the running server says of itself.

`mysqld-auto.cnf` (SET PERSIST) lies in the data directory, comes with every copy and wins over all configuration
files. Command line options win over both. So the donor's own values are taken out of the copy, and afterwards the
server is asked. Its server_id is none that its source, another replica or a CDC tool there has: the later of two
readers of binary logs with one id ends the earlier one.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Callable, ContextManager, Dict, List, Optional, Set, Tuple

from peaker_host.blocks.database_files import PAGE_LIST_FILE
from peaker_host.database.mysql_client import MysqlClient, is_from_server, sql_text
from peaker_host.database.page_load import DUMP_PERCENT
from peaker_host.database.replica_status import DIALECTS
from peaker_host.machine.errors import (
    MISFITS,
    DatabaseStillRunning,
    DatabaseUnreachable,
    IdentityNotTaken,
    UnclearAnswer,
    parsed_json,
    understood,
    whole,
)
from peaker_host.machine.files import read_json, read_text, write_atomically, write_json
from peaker_host.machine.image_server import OPTIONS_FILE
from peaker_host.machine.settings import Machine, Settings

# The second one is there while SET PERSIST writes, and is read first then.
PERSISTED_FILES = ("mysqld-auto.cnf", "mysqld-auto.cnf.backup")
# What a donor may have persisted that is the donor's own, or that decides how a copy comes up. MySQL persists an
# alias under both of its names. All else that the donor persisted (sizes, limits) holds for its copy too.
OWN_VARIABLES = frozenset(
    {
        *("server_id", "report_host", "report_port", "report_user", "report_password"),
        *("bind_address", "mysqlx_bind_address", "admin_address"),
        *("read_only", "super_read_only", "offline_mode"),
        *("skip_replica_start", "skip_slave_start", "relay_log_recovery"),
        *("innodb_buffer_pool_load_at_startup", "innodb_buffer_pool_filename", "innodb_buffer_pool_dump_pct"),
    }
)


def replica_options(engine: str, server_id: int) -> str:
    dialect = DIALECTS[engine]
    return (
        "# Written by Peaker. This server is a peak replica.\n"
        "[mysqld]\n"
        f"server_id = {server_id}\n"
        f"{dialect.skip_start_option}\n"
        f"{dialect.read_only_options}\n"
        "relay_log_recovery = ON\n"
        "innodb_buffer_pool_load_at_startup = OFF\n"
        f"innodb_buffer_pool_filename = {PAGE_LIST_FILE}\n"
        # At its shutdown the server writes its own list over the donor's, by default of a quarter of its pages.
        f"innodb_buffer_pool_dump_pct = {DUMP_PERCENT}\n"
    )


def stop_server(machine: Machine, client: MysqlClient) -> None:
    """Stops the server, so that nothing runs on the data directory when the volumes are mounted over it:
    images often enable the service.

    Raises DatabaseStillRunning.
    """
    machine.systemctl("stop", machine.mysql_service, timeout_seconds=120)
    try:
        client.rows("SELECT 1", timeout_seconds=10.0)
    except DatabaseUnreachable as error:
        # One that refuses the login, or has no place, runs.
        if not is_from_server(str(error)):
            return
    raise DatabaseStillRunning(
        f"a server still answers after `systemctl stop {machine.mysql_service}`: mysql_service in host.json must name "
        "the unit that runs it"
    )


def uuid_of_copy(settings: Settings) -> Optional[str]:
    """The server_uuid that lies in the data directory; None where there is none."""
    text = read_text(os.path.join(settings.datadir, "auto.cnf")) or ""
    pairs = [line.partition("=") for line in text.splitlines()]
    found = [value.strip() for name, _, value in pairs if name.strip().replace("_", "-") == "server-uuid"]
    return found[0] if found else None


def take_identity(settings: Settings, server_id: int) -> List[str]:
    """Removes the donor's uuid and persisted settings from the mounted copy, and writes our options, before
    its first start.

    Returns the names that were persisted. A copy with its donor's server_uuid would end the donor's replication
    (error 1236).
    """
    unpersisted = sorted({name for file in PERSISTED_FILES for name in _unpersist(settings.datadir, file)})
    identity = os.path.join(settings.datadir, "auto.cnf")
    if os.path.exists(identity):
        os.unlink(identity)
    write_atomically(
        os.path.join(settings.config_dir, OPTIONS_FILE), replica_options(settings.engine, server_id)
    )
    return unpersisted


def without_own_variables(text: str) -> Tuple[str, List[str]]:
    """mysqld-auto.cnf without the variables of OWN_VARIABLES, and which those were. The groups in which the file holds
    them differ between versions, so every group is looked into. Raises ValueError for what is no JSON object."""
    content = parsed_json(text)
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    removed: List[str] = []
    try:
        kept = json.dumps(_pruned(content, removed))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return kept, sorted(set(removed))


@understood(UnclearAnswer, "what the server says of itself")
def read_identity(client: MysqlClient, settings: Settings) -> Dict[str, Any]:
    """Reads the server's identity; sets of GTIDs in one line."""
    dialect = DIALECTS[settings.engine]
    facts = client.json(
        {
            "server_uuid": dialect.server_uuid,
            "server_id": "@@GLOBAL.server_id",
            "server_version": "@@GLOBAL.version",
            "datadir": "@@GLOBAL.datadir",
            "read_only": dialect.read_only_expression,
            "waits_for_start": dialect.skip_start_expression,
            "gtid_set": dialect.executed_set,
        }
    )
    facts["server_id"] = int(facts["server_id"])
    facts["read_only"], facts["waits_for_start"] = (
        bool(int(facts[name])) for name in ("read_only", "waits_for_start")
    )
    facts["gtid_set"] = str(facts["gtid_set"]).replace("\n", "")
    return facts


def refuse_wrong_identity(
    client: MysqlClient, settings: Settings, facts: Dict[str, Any], server_id: int, donor_uuid: Optional[str]
) -> None:
    """Compare what the running server says with what it was told. Raises IdentityNotTaken with the place that won."""
    wrong = {}
    if facts["server_id"] != server_id:
        wrong["server_id"] = f"server_id is {facts['server_id']}, not {server_id}"
    if donor_uuid and facts["server_uuid"] == donor_uuid:
        wrong["server_uuid"] = f"server_uuid is the donor's, {donor_uuid}"
    if not facts["read_only"]:
        name = "super_read_only" if settings.engine == "mysql" else "read_only"
        wrong[name] = f"{name} is OFF: it accepts writes"
    if not facts["waits_for_start"]:
        wrong["skip_replica_start"] = "skip_replica_start is OFF: it replicates before it was checked"
    if os.path.realpath(str(facts["datadir"])) != os.path.realpath(settings.datadir):
        wrong["datadir"] = f"datadir is {facts['datadir']}, host.json says {settings.datadir}"
    if not wrong:
        return
    places = _places(client, settings.engine, sorted(wrong))
    where = f" ({'; '.join(places)})" if places else ""
    path = os.path.join(settings.config_dir, OPTIONS_FILE)
    raise IdentityNotTaken(
        f"the server does not run as it was told in {path}: {'; '.join(wrong.values())}{where}. The image's "
        f"configuration must read {settings.config_dir} last, and the unit must set none of these on the command line",
        {"server_says": {name: facts[name] for name in ("server_id", "server_uuid", "read_only", "datadir")}},
    )


def _places(client: MysqlClient, engine: str, names: List[str]) -> List[str]:
    """Returns the places from which the server got these variables, by its own word."""
    if engine != "mysql":
        return []
    listed = ", ".join(sql_text(name) for name in names)
    try:
        rows = client.rows(
            "SELECT VARIABLE_NAME, VARIABLE_SOURCE, VARIABLE_PATH FROM performance_schema.variables_info"
            f" WHERE VARIABLE_NAME IN ({listed})"
        )
    except DatabaseUnreachable:
        return []
    return [
        f"{row.get('VARIABLE_NAME')} from {row.get('VARIABLE_SOURCE')} {row.get('VARIABLE_PATH') or ''}".strip()
        for row in rows
    ]


def _unpersist(datadir: str, name: str) -> List[str]:
    path = os.path.join(datadir, name)
    text = read_text(path)
    if text is None:
        return []
    try:
        kept, removed = without_own_variables(text)
    except ValueError as error:
        raise IdentityNotTaken(f"{path} came with the copy and is not readable: {error}") from error
    if removed:
        owner = os.stat(path)
        write_atomically(path, kept, mode=owner.st_mode & 0o777)
        os.chown(path, owner.st_uid, owner.st_gid)
    return removed


def _pruned(group: Dict[str, Any], removed: List[str]) -> Dict[str, Any]:
    removed += [name for name in group if name in OWN_VARIABLES]
    return {
        name: _pruned(value, removed) if isinstance(value, dict) else value
        for name, value in group.items()
        if name not in OWN_VARIABLES
    }


_READERS = {"mysql": "SHOW REPLICAS", "mariadb": "SHOW SLAVE HOSTS"}
# The id that was drawn because another reader of the source has the one that was asked for.
_FILE = "server_id.json"
_ASK_SECONDS = 15.0


def kept_server_id(settings: Settings, asked: int) -> int:
    """The server_id that was drawn in place of this one; this one where it was free."""
    kept = read_json(settings.state_path(_FILE)) or {}
    return int(kept["drawn"]) if kept.get("asked") == asked else asked


def own_server_id(
    settings: Settings,
    client: MysqlClient,
    login: ContextManager[MysqlClient],
    say: Callable[[str], None],
) -> Optional[int]:
    """Returns this server's id, another one drawn where the source knows it as another's; None where the source
    cannot be asked. What was drawn is kept for every later start.
    """
    facts = client.json({"id": "@@GLOBAL.server_id", "uuid": DIALECTS[settings.engine].server_uuid})
    mine = int(facts["id"])
    try:
        with login as source:
            taken = _taken(settings.engine, source, str(facts["uuid"]))
    except (DatabaseUnreachable, *MISFITS) as error:
        say(f"whether another reader of the source has server_id {mine} is unknown: {error}")
        return None
    if mine not in taken:
        return mine
    drawn = draw(mine, taken)
    kept: Dict[str, Any] = read_json(settings.state_path(_FILE)) or {}
    asked = kept["asked"] if kept.get("drawn") == mine else mine
    write_json(settings.state_path(_FILE), {"asked": asked, "drawn": drawn})
    write_atomically(os.path.join(settings.config_dir, OPTIONS_FILE), replica_options(settings.engine, drawn))
    client.execute(f"SET GLOBAL server_id = {drawn}")
    say(f"server_id {mine} is another's at the source; drawn: {drawn}")
    return drawn


def draw(taken_one: int, taken: Set[int]) -> int:
    """A server_id that is free; the same each time."""
    drawn = taken_one
    while drawn in taken:
        drawn = int.from_bytes(hashlib.sha256(str(drawn).encode()).digest()[:4], "big") or 1
    return drawn


def _taken(engine: str, source: MysqlClient, own_uuid: str) -> Set[int]:
    """The ids of the source and of its readers; this server's own entry, by its uuid, is none of them."""
    rows = source.rows(_READERS[engine], timeout_seconds=_ASK_SECONDS)
    own = source.json({"id": "@@GLOBAL.server_id"}, timeout_seconds=_ASK_SECONDS)["id"]
    by_name = [{name.lower(): value for name, value in row.items()} for row in rows]
    others = [row for row in by_name if row.get("replica_uuid") != own_uuid]
    return {whole(own, "server_id"), *(whole(row["server_id"], "server_id") for row in others)}
