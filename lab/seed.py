"""The dataset that a new local cluster starts from: made once, kept as two snapshots of one instant.

A cluster on AWS exists before Peaker comes to it, with data and at least one replica. The local cloud makes
such a cluster from this seed: `orders`, a few hundred MB of sysbench tables with the accounts that
replication, the application and the load need. There is a dataset for each kind of server.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.servers import MYSQL, DatabaseServer
from localcloud.dataplane import DataPlane, DataPlaneError, HostSpec, VolumeLimits

GIB = 1024**3
REPLICATION_USER, REPLICATION_PASSWORD = "repl", "local-repl"
APPLICATION_USER, APPLICATION_PASSWORD = "app", "local-app"
WRITER_USER, WRITER_PASSWORD = "writer", "local-writer"
_UNLIMITED = VolumeLimits(iops=100_000, throughput_mib_per_s=4000, base_latency_ms=0.0, fetch_latency_ms=0.0)
_SEED_HOST, _SEED_ADDRESS = "i-0a770000000005eed", "10.77.250.1"


@dataclass(frozen=True)
class Dataset:
    """A dataset to make: sysbench tables in one schema, on this kind of server."""

    server: DatabaseServer = MYSQL
    database: str = "orders"
    tables: int = 8
    table_size: int = 250_000
    data_gib: int = 4
    log_gib: int = 2


@dataclass(frozen=True)
class SeedSnapshot:
    """One kept snapshot, as EC2 is to know it."""

    name: str
    snapshot_id: str
    size_gib: int


@dataclass(frozen=True)
class Seed:
    """The dataset and its snapshots."""

    dataset: Dataset
    snapshots: tuple[SeedSnapshot, ...]


_INITIALISE = f"""
set -eu
for pair in /dev/sdf:/var/lib/mysql /dev/sdg:/var/lib/mysql-log; do
    mkfs.xfs -q -f "${{pair%%:*}}"; mkdir -p "${{pair##*:}}"; mount "${{pair%%:*}}" "${{pair##*:}}"
    chown mysql:mysql "${{pair##*:}}"
done
# Nothing here outlives a failure: the fill needs no binary log and no durable commits.
cat >/etc/mysql/conf.d/seed.cnf <<'CNF'
[mysqld]
skip_log_bin
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=OFF
innodb_buffer_pool_size=1G
CNF
@initialise@ >/var/log/initialise.log 2>&1 || {{
    tail -n 20 /var/log/initialise.log >&2; exit 1
}}
systemctl start mysql
for attempt in $(seq 150); do
    mysql --defaults-extra-file=/etc/peaker/admin.cnf -e 'DO 0' >/dev/null 2>&1 && break; sleep 0.2
done
mysql --defaults-extra-file=/etc/peaker/admin.cnf <<'SQL'
@writable@;
CREATE USER '{REPLICATION_USER}'@'%' IDENTIFIED BY '{REPLICATION_PASSWORD}';
GRANT @replication_rights@ ON *.* TO '{REPLICATION_USER}'@'%';
CREATE DATABASE orders;
CREATE USER '{APPLICATION_USER}'@'%' IDENTIFIED BY '{APPLICATION_PASSWORD}';
GRANT SELECT ON orders.* TO '{APPLICATION_USER}'@'%';
CREATE USER '{WRITER_USER}'@'%' IDENTIFIED BY '{WRITER_PASSWORD}';
GRANT ALL ON orders.* TO '{WRITER_USER}'@'%';
SQL
"""

_FINISH = """
set -eu
mysql --defaults-extra-file=/etc/peaker/admin.cnf -e "@empty_history@"
mysql --defaults-extra-file=/etc/peaker/admin.cnf -e 'SET GLOBAL innodb_fast_shutdown = 0'
systemctl stop mysql
rm -f /var/lib/mysql/auto.cnf
umount /var/lib/mysql /var/lib/mysql-log
"""


def _in_its_words(script: str, server: DatabaseServer) -> str:
    for name in ("initialise", "writable", "empty_history", "replication_rights"):
        script = script.replace(f"@{name}@", str(getattr(server, name)))
    return script


def _recipe_file(state_dir: Path, dataset: Dataset) -> Path:
    return state_dir / f"seed-{dataset.server.engine}.json"


def recipe_hash(dataset: Dataset) -> str:
    """Changes when the dataset would come out differently."""
    text = json.dumps(asdict(dataset), sort_keys=True) + _INITIALISE + _FINISH
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load_seed(state_dir: Path, dataset: Dataset) -> Seed | None:
    """The seed made earlier by this recipe, or None."""
    path = _recipe_file(state_dir, dataset)
    if not path.is_file():
        return None
    document = json.loads(path.read_text())
    if document["recipe"] != recipe_hash(dataset):
        return None
    return Seed(dataset, tuple(SeedSnapshot(**entry) for entry in document["snapshots"]))


def kept_snapshots(state_dir: Path) -> tuple[SeedSnapshot, ...]:
    """Those of all datasets that were made here."""
    return tuple(
        SeedSnapshot(**entry)
        for path in sorted(state_dir.glob("seed-*.json"))
        for entry in json.loads(path.read_text())["snapshots"]
    )


def make_seed(plane: DataPlane, state_dir: Path, dataset: Dataset, progress: Callable[[str], None]) -> Seed:
    """Make the dataset on a host of its own and snapshot its volumes. Leaves only the snapshots."""
    recipe = recipe_hash(dataset)
    names = {"data": ("vol-0a7700000005eed0d", "/dev/sdf", dataset.data_gib),
             "log": ("vol-0a7700000005eed0e", "/dev/sdg", dataset.log_gib)}  # fmt: skip
    snapshots = tuple(
        SeedSnapshot(name, f"snap-{recipe}{index:05x}", size)
        for index, (name, (_, _, size)) in enumerate(names.items())
    )
    try:
        plane.hosts.launch(HostSpec(_SEED_HOST, dataset.server.image_id, _SEED_ADDRESS, "seed"))
        for volume_id, device_name, size in names.values():
            plane.volumes.create_volume(volume_id, size * GIB, _UNLIMITED)
            device = plane.volumes.attach(volume_id)
            plane.hosts.plug(_SEED_HOST, device_name, volume_id, device)
        progress(f"initialising {dataset.server.engine}")
        _on_host(plane, _in_its_words(_INITIALISE, dataset.server))
        progress(f"filling {dataset.tables} tables of {dataset.table_size:,} rows")
        _fill(dataset)
        progress("clean shutdown and snapshots")
        _on_host(plane, _in_its_words(_FINISH, dataset.server))
        plane.volumes.create_snapshots({names[s.name][0]: s.snapshot_id for s in snapshots})
    finally:
        plane.hosts.terminate(_SEED_HOST)
        for volume_id, _, _ in names.values():
            plane.volumes.detach(volume_id)
            plane.volumes.delete_volume(volume_id)
    document = {"recipe": recipe, "snapshots": [asdict(s) for s in snapshots]}
    _recipe_file(state_dir, dataset).write_text(json.dumps(document, indent=1))
    return Seed(dataset, snapshots)


def _on_host(plane: DataPlane, script: str) -> None:
    result = plane.hosts.start_command(_SEED_HOST, ["/bin/bash", "-c", script]).wait(180)
    if result.exit_code != 0:
        raise DataPlaneError(
            f"the seed host's script ended with {result.exit_code}: {result.stderr.strip() or result.stdout}"
        )


def _fill(dataset: Dataset) -> None:
    command = [
        "sysbench", "oltp_read_only", "--db-driver=mysql", f"--mysql-host={_SEED_ADDRESS}",
        f"--mysql-user={WRITER_USER}", f"--mysql-password={WRITER_PASSWORD}",
        f"--mysql-db={dataset.database}", f"--tables={dataset.tables}",
        f"--table-size={dataset.table_size}", "--threads=2", "prepare",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise DataPlaneError(f"sysbench could not fill the tables: {(done.stderr or done.stdout)[-800:]}")
