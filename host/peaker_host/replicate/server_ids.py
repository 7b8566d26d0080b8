"""The server_id of a replica is none that its source, another replica or a CDC tool there has: the later of two
readers of binary logs with one id ends the earlier one.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, ContextManager, Dict, Optional, Set

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.database.replica_status import DIALECTS
from peaker_host.machine.errors import DatabaseUnreachable
from peaker_host.machine.files import read_json, write_atomically, write_json
from peaker_host.machine.image_server import OPTIONS_FILE
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import MISFITS, whole
from peaker_host.replicate.identity import replica_options

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
