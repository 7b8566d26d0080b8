"""The channel record describes the donor's channel in its data directory, so that every copy has it.

A copy cannot know otherwise: MariaDB's master.info is not crash-safe, and replication filters are in no file of the
data directory. No password is in it.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.database.replica_status import DIALECTS
from peaker_host.machine.errors import FiltersDiffer, UnreadableFile
from peaker_host.machine.files import read_json, write_atomically

FILE = "peaker-channel.json"
_FILTERS = (
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
    "Replicate_Ignore_Server_Ids",
)
_LONGEST_SHOWN = 500
_OF_THE_CHANNEL = ("Host", "Port")


def write_record(client: MysqlClient, engine: str, datadir: str) -> None:
    """Writes the record on the donor, before its snapshot."""
    rows = client.rows(DIALECTS[engine].show_status)
    prefix = DIALECTS[engine].prefix
    kept = [*_FILTERS, *(f"{prefix}_{name}" for name in _OF_THE_CHANNEL)]
    status = {
        name: value
        for name, value in (rows[0] if rows else {}).items()
        if value and (name in kept or "_SSL_" in name)
    }
    text = json.dumps({"version": 1, "engine": engine, "status": status}, indent=1) + "\n"
    path = os.path.join(datadir, FILE)
    write_atomically(path, text, mode=0o600)


def read_record(datadir: str) -> Dict[str, Any]:
    """The record that came with the copy; empty when there is none. Raises UnreadableFile."""
    path = os.path.join(datadir, FILE)
    record = read_json(path) or {}
    status = record.get("status", {})
    if not isinstance(status, dict) or not all(isinstance(value, str) for value in status.values()):
        raise UnreadableFile(
            f"{path} cannot be read: its status is no object of texts; build from another donor"
        )
    return record


def refuse_other_filters(client: MysqlClient, engine: str, datadir: str) -> None:
    """A copy must replicate what its donor did. Raises FiltersDiffer that names both sides.

    MariaDB's domain and server ids belong to the channel and are made with it; all else comes from the configuration.
    """
    record = read_record(datadir)
    if not record or record.get("engine") != engine:
        return
    rows = client.rows(DIALECTS[engine].show_status)
    own: Dict[str, Optional[str]] = rows[0] if rows else {}
    if not rows:
        return
    wanted = record.get("status", {})
    differing: List[str] = [
        f"{name}: {_shown(own.get(name))} here, {_shown(wanted.get(name))} on the donor"
        for name in _FILTERS
        if _as_set(own.get(name)) != _as_set(wanted.get(name))
    ]
    if differing:
        raise FiltersDiffer(
            f"this replica would not apply what its donor applies: {'; '.join(differing)}. Set the donor's filters in "
            "the image's configuration"
        )


def _shown(filters: Optional[str]) -> str:
    return (filters or "none")[:_LONGEST_SHOWN]


def _as_set(text: Optional[str]) -> "set[str]":
    return {part.strip() for part in (text or "").split(",") if part.strip()}
