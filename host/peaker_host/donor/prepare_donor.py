"""This command checks a replica before its snapshot and dumps its hot pages."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Sequence

from peaker_host.database.data_paths import refuse_outside
from peaker_host.database.mysql_client import MysqlClient, admin_client, status_text
from peaker_host.database.page_load import DUMP_PERCENT, dump_buffer_pool
from peaker_host.database.replica_status import DIALECTS, ReplicaStatus, only_channel, read_status
from peaker_host.layouts.discover import discover
from peaker_host.layouts.image_fit import donor_facts
from peaker_host.machine.errors import DonorIsSource, DonorNotReplicating, ErrantTransactions
from peaker_host.machine.manifest import stack_document
from peaker_host.machine.settings import Machine, Settings
from peaker_host.replicate.errant import describe_errant, look_for_errant
from peaker_host.replicate.source_login import write_record

_DUMP_TIMEOUT_SECONDS = 120.0
_SYNC_TIMEOUT_SECONDS = 120.0


def prepare_donor(machine: Machine, volumes: Sequence[str], say: Callable[[str], None]) -> Dict[str, Any]:
    """Dumps the buffer pool's page list, writes it out, and reports the donor's position.

    `volumes` are the mount points of what will be snapshotted. Raises DonorIsSource, DonorNotReplicating,
    UnsupportedChannels, DataOutsideVolumes, ErrantTransactions, LayoutUnsupported, BufferPoolTimeout.
    """
    client = admin_client(machine)
    status = refuse_source(client, machine.engine)
    refuse_outside(client, machine.engine, volumes)
    _refuse_errant(machine, client, say)
    layout = discover(machine, volumes)
    pages = dump_buffer_pool(client, machine, DUMP_PERCENT, _DUMP_TIMEOUT_SECONDS)
    say(f"page list dumped: {pages} pages")
    directories = data_directories(client, machine)
    write_record(client, machine.engine, directories[0])
    roots = mount_roots(directories)
    for root in roots:
        # The page list and the record must be on the volume at the snapshot's instant.
        machine.processes.run(["sync", "-f", root], timeout_seconds=_SYNC_TIMEOUT_SECONDS)
    dialect = DIALECTS[machine.engine]
    facts = client.json(
        {
            "gtid_set": dialect.executed_set,
            "server_uuid": dialect.server_uuid,
        }
    )
    return {
        "gtid_set": str(facts["gtid_set"]).replace("\n", ""),
        "server_uuid": facts["server_uuid"],
        "lag_seconds": status.lag_seconds,
        "buffer_pool_pages": pages,
        # The list has three quarters of a full pool: what fits an instance is judged by what the donor holds.
        "buffer_pool_held_pages": int(status_text(client, "Innodb_buffer_pool_pages_data") or pages),
        "data_bytes": sum(_used_bytes(path) for path in roots),
        "layout": [stack_document(stack) for stack in layout],
        "server": donor_facts(client, machine.engine, directories),
    }


def _refuse_errant(machine: Machine, client: MysqlClient, say: Callable[[str], None]) -> None:
    """Refuses errant transactions, with which no copy could join the source. MariaDB's position has no such set."""
    if machine.engine != "mysql":
        return
    look = look_for_errant(machine, client, say)
    if look.errant is None:
        say("whether this replica holds transactions that the source does not is unknown")
    elif look.errant:
        raise ErrantTransactions(describe_errant(look.errant), {"errant": look.errant})


def data_directories(client: MysqlClient, settings: Settings) -> List[str]:
    facts = client.json(
        {
            "datadir": "@@GLOBAL.datadir",
            "redo": "@@GLOBAL.innodb_log_group_home_dir",
            "binlog": "@@GLOBAL.log_bin_basename",
        }
    )
    datadir = str(facts["datadir"] or settings.datadir)
    binlog = os.path.dirname(str(facts["binlog"] or ""))
    found = [datadir, os.path.join(datadir, str(facts["redo"] or ".")), binlog or datadir]
    return [os.path.normpath(path) for path in found]


def refuse_source(client: MysqlClient, engine: str) -> ReplicaStatus:
    """Returns the replica's status, or refuses. Raises DonorIsSource, DonorNotReplicating, UnsupportedChannels."""
    only_channel(client, engine)
    status = read_status(client, engine)
    if status is None:
        raise DonorIsSource(
            "this server has no replication channel: it is a source and must not be snapshotted"
        )
    read_only = client.json({"read_only": DIALECTS[engine].read_only_expression})["read_only"]
    if not int(read_only):
        raise DonorIsSource("this server accepts writes: it must not be snapshotted as a replica")
    if not status.running:
        raise DonorNotReplicating(f"a replication thread does not run: {status.io_error or status.sql_error}")
    return status


def mount_roots(directories: Sequence[str]) -> List[str]:
    """The mount points on which the directories truly lie (links followed), each once, never the root filesystem."""
    roots: List[str] = []
    for directory in directories:
        path = os.path.realpath(directory)
        while not os.path.ismount(path):
            path = os.path.dirname(path)
        if path != "/" and path not in roots:
            roots.append(path)
    return roots


def _used_bytes(path: str) -> int:
    facts = os.statvfs(path)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
