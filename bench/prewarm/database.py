"""From the creation of a volume to a MySQL that reads at its warm rate, by what was done to the volume before.

Without a prewarm the clients' own reads warm the volume: here each brings a whole 512 KiB block for the 16 KiB that it
is charged for, so that eight clients at 30 ms bring as much as the volume's throughput lets a prewarm read. Whether EBS
does that is not known (localcloud/blockstore/README.md); few clients show the case in which it matters little.

The table is much larger than its hot set, a tenth of it in one stretch, and the hot set is larger than the buffer
pool: reads come from the volume. The snapshot is taken of a running server under writes, as of a replica.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from peaker.domain.host_results import PrewarmReport
from peaker.domain.storage.prewarm_progress import is_hot_by_next_look

from bench.prewarm.cold_volumes import GIB, MIB, ROOT, STATE, UNLIMITED, Laboratory, Restored
from bench.prewarm.engine_on_host import DEVICES, MOUNT_POINTS, EngineOnHost, RunningEngine, install
from bench.prewarm.methods import fio_line, start
from localcloud.dataplane import DataPlaneError, HostSpec, VolumeLimits
from localcloud.hosts import NamespaceHosts, NetworkPlan
from localcloud.hosts.images import MYSQL_IMAGE_ID, ensure_image

Say = Callable[[str], None]
IMAGES = ROOT / ".localcloud" / "images"
NETWORK = NetworkPlan(bridge="pkrbench0", cidr="10.91.0.0/16")
FEW, MANY = ", few clients", ", many clients"
STRATEGIES = (
    *("warm volume", "hot first", "used first", "no prewarm", "fio first"),
    *(f"{kind}{clients}" for clients in (FEW, MANY) for kind in ("hot first", "no prewarm")),
)
CLIENTS = 8
# Few: as a replica has whose share of the connections is still ramped up, so that its own reads warm it slowly.
CLIENTS_OF = {"": CLIENTS, FEW: 2, MANY: 32}
BACKGROUND_MIB_PER_S = 32
SHARE_OF_WARM = 0.9
_SECONDS_IN_A_ROW = 3
_WATCH_SECONDS = 16
_MORE_WHEN_COLD_PER_HOT_100_MIB = 3
_PLATEAU_SECONDS = 8
_ROW_BYTES = 7600
_LUA = Path(__file__).with_name("point_reads.lua")
_ADMIN = "mysql --defaults-extra-file=/etc/peaker/admin.cnf"
_RATE_LINE = re.compile(r"qps: ([0-9.]+)")

_MOUNT = """
set -eu
for pair in @PAIRS@; do
    mount -o nouuid "${pair%%:*}" "${pair##*:}"; chown mysql:mysql "${pair##*:}"
done
""".replace("@PAIRS@", " ".join(map(":".join, zip(DEVICES, MOUNT_POINTS, strict=True))))
_START = """
rm -f /var/lib/mysql/auto.cnf
systemctl start mysql
for attempt in $(seq 1200); do
    mysqladmin --defaults-extra-file=/etc/peaker/admin.cnf ping >/dev/null 2>&1 && exit 0; sleep 0.1
done
exit 1
"""


@dataclass(frozen=True)
class Database:
    """Snapshots of the data and the log volume, and how many rows the table has."""

    snapshots: tuple[str, str]
    rows: int

    @property
    def hot_range(self) -> tuple[int, int]:
        """Keys of the hot set: a tenth of the table, in its middle."""
        return round(self.rows * 0.45), round(self.rows * 0.55)


@dataclass(frozen=True)
class TimeToWarmReads:
    """One strategy once. Times in seconds from the creation of the volumes; rates in reads per second."""

    prewarm_seconds: float
    answers_seconds: float
    warm_seconds: float
    warm_rate: float
    rates: list[float]


class DatabaseBench:
    """Hosts with a bridge of their own beside the laboratory's volumes."""

    def __init__(self, lab: Laboratory) -> None:
        ensure_image(MYSQL_IMAGE_ID, IMAGES)
        self._lab = lab
        self._hosts = NamespaceHosts(STATE, IMAGES, NETWORK)
        self._number = 0

    def __enter__(self) -> DatabaseBench:
        return self

    def __exit__(self, *_: object) -> None:
        self._hosts.close()

    def build(self, table_gib: float, say: Say) -> Database:
        """Fill a table of that size, read its hot set, snapshot under writes."""
        rows = int(table_gib * GIB / 8192)
        database = Database((self._lab.new_id("snap"), self._lab.new_id("snap")), rows)
        data, log = self._lab.new_id("vol"), self._lab.new_id("vol")
        self._lab.store.create_volume(data, round(table_gib * 1.5) * GIB, UNLIMITED)
        self._lab.store.create_volume(log, GIB, UNLIMITED)
        for volume_id in (data, log):
            # By this machine's tools, which also read the maps here; on a host both are the host's own.
            subprocess.run(["mkfs.xfs", "-q", self._lab.store.attach(volume_id).path], check=True)
        with self._host((data, log)) as (instance_id, address):
            say(f"database: {rows} rows, {table_gib:g} GiB")
            self._script(instance_id, _MOUNT + _initialise(rows), 600)
            self._script(instance_id, _START, 120)
            say("database: reading the hot set, snapshot under writes")
            _sysbench_for(8, address, database)
            self._script(instance_id, _PREPARE_SNAPSHOT, 60)
            with self._writing(instance_id, database):
                time.sleep(2)
                pairs = dict(zip((data, log), database.snapshots, strict=True))
                self._lab.store.create_snapshots(pairs)
        for volume_id in (data, log):
            self._lab.store.delete_volume(volume_id)
        return database

    def measure(self, database: Database, strategy: str, say: Say) -> TimeToWarmReads:
        """Restore, do what the strategy says, start MySQL, read until the rate is that of a warm volume."""
        kind, comma, clients_named = strategy.partition(",")
        clients = CLIENTS_OF[comma + clients_named]
        limits = _warm_limits() if kind == "warm volume" else VolumeLimits()
        with contextlib.ExitStack() as stack:
            instance_id, address = stack.enter_context(self._host(()))
            install(self._hosts, instance_id)
            started = time.monotonic()
            volumes = [
                stack.enter_context(self._lab.restored(snapshot, limits)) for snapshot in database.snapshots
            ]
            stack.callback(self._hosts.terminate, instance_id)
            for volume, name in zip(volumes, DEVICES, strict=True):
                device = self._lab.store.attach(volume.volume_id)
                self._hosts.plug(instance_id, name, volume.volume_id, device)
            self._prewarm(stack, kind, instance_id, volumes, database)
            warmed = time.monotonic()
            self._script(instance_id, _MOUNT + _START, 180)
            answers = time.monotonic()
            rates = _sysbench_for(_watched_seconds(kind, database, clients), address, database, clients)
            plateau = statistics.median(rates[-_PLATEAU_SECONDS:])
            result = TimeToWarmReads(
                warmed - started,
                answers - started,
                answers - started + seconds_until_warm(rates, plateau),
                plateau,
                rates,
            )
            say(f"{strategy}: warm reads after {result.warm_seconds:.1f} s")
            return result

    def _prewarm(
        self,
        stack: contextlib.ExitStack,
        strategy: str,
        instance_id: str,
        volumes: list[Restored],
        database: Database,
    ) -> None:
        """Return when the strategy lets the database start."""
        if strategy == "fio first":
            readers = [start(fio_line(volume.path)) for volume in volumes]
            for reader in readers:
                reader.communicate()
                if reader.returncode:
                    raise DataPlaneError(f"fio ended with {reader.returncode}")
            return
        if strategy not in ("used first", "hot first"):
            return
        host = EngineOnHost(self._hosts, instance_id, volumes)
        ids = [volume.volume_id for volume in volumes]
        self._lab.give_block_list(host.progress_path, dict(zip(ids, database.snapshots, strict=True)))
        host.assemble()
        engine = host.prewarm("--background-rate-mib-per-s", str(_background(strategy)))
        stack.callback(engine.end)
        _await_engine(host, engine, until_hot=strategy == "hot first")

    @contextlib.contextmanager
    def _host(self, volume_ids: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """A running host with the volumes at /dev/sdf and on; its id and address."""
        self._number += 1
        instance_id = f"i-0be9c{self._number:012x}"
        address = f"10.91.1.{self._number}"
        self._hosts.launch(HostSpec(instance_id, MYSQL_IMAGE_ID, address, f"bench-{self._number}"))
        try:
            for letter, volume_id in zip("fg", volume_ids, strict=False):
                device = self._lab.store.attach(volume_id)
                self._hosts.plug(instance_id, f"/dev/sd{letter}", volume_id, device)
            yield instance_id, address
        finally:
            self._hosts.terminate(instance_id)

    @contextlib.contextmanager
    def _writing(self, instance_id: str, database: Database) -> Iterator[None]:
        """Updates all over the hot set while the snapshot is taken: there is redo to recover."""
        low, high = database.hot_range
        update = f"UPDATE bench.pages SET note = note + 1 WHERE id = {low} + FLOOR(RAND() * {high - low});"
        script = f"while :; do for i in $(seq 50); do echo '{update}'; done; done | {_ADMIN}"
        writer = self._hosts.start_command(instance_id, ["/bin/bash", "-c", script])
        try:
            yield
        finally:
            writer.cancel()

    def _script(self, instance_id: str, script: str, limit_seconds: float) -> None:
        done = self._hosts.start_command(instance_id, ["/bin/bash", "-c", script]).wait(limit_seconds)
        if done.exit_code != 0:
            raise DataPlaneError(f"{instance_id}: {(done.stderr or done.stdout)[-800:]}")


def seconds_until_warm(rates: list[float], plateau: float) -> float:
    """The end of the first second that begins a row of warm ones; `rates` has one entry per second."""
    wanted = SHARE_OF_WARM * plateau
    for second in range(len(rates) - _SECONDS_IN_A_ROW + 1):
        if all(rate >= wanted for rate in rates[second : second + _SECONDS_IN_A_ROW]):
            return second + 1.0
    return float(len(rates))


def _watched_seconds(strategy: str, database: Database, clients: int) -> int:
    """Long enough for a plateau: what is read cold takes the longer, the larger the hot set, the fewer the clients."""
    hot_mib = (database.hot_range[1] - database.hot_range[0]) * 8192 / MIB
    cold = strategy in ("no prewarm", "hot first")
    more = hot_mib / 100 * _MORE_WHEN_COLD_PER_HOT_100_MIB * CLIENTS / clients
    return _WATCH_SECONDS + (round(more) if cold else 0)


def _background(strategy: str) -> int:
    return BACKGROUND_MIB_PER_S if strategy == "hot first" else 0


def _warm_limits() -> VolumeLimits:
    """The same volume with everything present."""
    return VolumeLimits(fetch_latency_ms=0.0, fetch_parallel=1024)


def _await_engine(host: EngineOnHost, engine: RunningEngine, until_hot: bool) -> None:
    """Until the workflow would let a database start, or until the engine has ended."""
    while not engine.has_ended():
        if until_hot and _says_hot(host):
            return
        time.sleep(0.05)


def _says_hot(host: EngineOnHost) -> bool:
    """As ReportPrewarm decides it."""
    try:
        report = PrewarmReport.model_validate_json(host.progress_path.read_text())
    except (FileNotFoundError, ValueError):
        return False
    return is_hot_by_next_look(report)


def _sysbench_for(seconds: int, address: str, database: Database, clients: int = CLIENTS) -> list[float]:
    """Point reads of the hot set; reads per second, second by second."""
    low, high = database.hot_range
    command = [
        *("sysbench", str(_LUA), "--db-driver=mysql", f"--mysql-host={address}", "--mysql-user=bench"),
        *("--mysql-password=bench", "--mysql-db=bench", f"--threads={clients}", f"--time={seconds}"),
        *("--report-interval=1", "--db-ps-mode=disable", f"--first-id={low}", f"--last-id={high}", "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise DataPlaneError(f"sysbench: {(done.stderr or done.stdout)[-600:]}")
    return [float(rate) for rate in _RATE_LINE.findall(done.stdout)]


_PREPARE_SNAPSHOT = f"""
set -eu
{_ADMIN} -e 'SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF'
rm -f /var/lib/mysql/ib_buffer_pool
{_ADMIN} -e 'SET GLOBAL innodb_buffer_pool_dump_pct = 100; SET GLOBAL innodb_buffer_pool_dump_now = ON'
for attempt in $(seq 100); do [ -s /var/lib/mysql/ib_buffer_pool ] && break; sleep 0.1; done
# As prepare_donor does.
sync -f /var/lib/mysql /var/lib/mysql-log
"""


def _initialise(rows: int) -> str:
    """A data directory with the table, filled without what only matters when it must survive a crash."""
    return (
        f"""
cat >/etc/mysql/conf.d/fill.cnf <<'CNF'
[mysqld]
skip_log_bin
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=OFF
innodb_buffer_pool_size=512M
CNF
mysqld --initialize-insecure --user=mysql >/var/log/initialise.log 2>&1
systemctl start mysql
for attempt in $(seq 150); do
    mysqladmin --defaults-extra-file=/etc/peaker/admin.cnf ping >/dev/null 2>&1 && break; sleep 0.2
done
{_ADMIN} <<'SQL'
SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF;
ALTER INSTANCE DISABLE INNODB REDO_LOG;
CREATE DATABASE bench;
CREATE USER bench@'%' IDENTIFIED BY 'bench';
GRANT ALL ON bench.* TO bench@'%';
CREATE TABLE bench.pages (id INT PRIMARY KEY, note INT NOT NULL, filler VARBINARY({_ROW_BYTES}) NOT NULL);
SET SESSION cte_max_recursion_depth = 1000000;
INSERT INTO bench.pages
    WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})
    SELECT id, 0, REPEAT('f', {_ROW_BYTES}) FROM n;
ALTER INSTANCE ENABLE INNODB REDO_LOG;
SQL
systemctl stop mysql
rm /etc/mysql/conf.d/fill.cnf
umount /var/lib/mysql /var/lib/mysql-log
"""
        + _MOUNT
    )
