"""This module finds the one replication channel that Peaker follows; a server with several is refused with
their names.
"""

from __future__ import annotations

from typing import List, Optional

from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import UnsupportedChannels

_GROUP_CHANNELS = ("group_replication_applier", "group_replication_recovery")
_ALL_OF_MARIADB = "SHOW ALL SLAVES STATUS"


def channel_names(client: MysqlClient, engine: str) -> List[str]:
    """The names of all channels; the default one's is empty."""
    if engine == "mariadb":
        return [row.get("Connection_name") or "" for row in client.rows(_ALL_OF_MARIADB)]
    return [row.get("Channel_Name") or "" for row in client.rows("SHOW REPLICA STATUS")]


def only_channel(client: MysqlClient, engine: str) -> Optional[str]:
    """The name of the one channel, empty for the default one; None where there is none.

    Raises UnsupportedChannels for several, for Group Replication, and for a named one of MariaDB.
    """
    names = channel_names(client, engine)
    shown = ", ".join(repr(name) if name else "the default channel" for name in names)
    if len(names) > 1:
        raise UnsupportedChannels(
            f"this server has {len(names)} replication channels: {shown}. A copy could follow one source only; choose "
            "a donor with one channel",
            {"channels": names},
        )
    if any(name in _GROUP_CHANNELS for name in names):
        raise UnsupportedChannels(
            f"this server is a member of Group Replication ({shown}), not a replica of one source",
            {"channels": names},
        )
    if engine == "mariadb" and any(names):
        raise UnsupportedChannels(
            f"this server's replication connection has a name ({shown}); of MariaDB only the default connection is "
            "supported",
            {"channels": names},
        )
    return names[0] if names else None


def for_channel(name: str) -> str:
    """The clause that ends a statement of MySQL; nothing for the default channel."""
    return f" FOR CHANNEL {sql_text(name)}" if name else ""
