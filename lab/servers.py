"""The database servers that a cluster's owner may run, each in its own words: MySQL and MariaDB."""

from __future__ import annotations

from dataclasses import dataclass

from localcloud.hosts.images import MARIADB_IMAGE_ID, MYSQL_IMAGE_ID


@dataclass(frozen=True)
class DatabaseServer:
    """A kind of server: its owner makes an empty one, lets it be copied, and lets a replica follow its
    source.

    `follow` and `empty_history` are statements, `initialise` is a
    command of a shell. Lines of `source_options` and `replica_options` stand in the file of one host's settings.
    """

    engine: str
    image_id: str
    initialise: str
    writable: str
    empty_history: str
    replication_rights: str
    health_grants: tuple[str, ...]
    source_options: tuple[str, ...]
    replica_options: tuple[str, ...]
    follow_source: str
    replication_login_file: bool


MYSQL = DatabaseServer(
    engine="mysql",
    image_id=MYSQL_IMAGE_ID,
    initialise="mysqld --initialize-insecure --user=mysql",
    writable="SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF",
    empty_history="RESET BINARY LOGS AND GTIDS",
    replication_rights="REPLICATION SLAVE",
    health_grants=(
        "REPLICATION CLIENT ON *.*",
        "SELECT ON performance_schema.replication_connection_status",
        "SELECT ON performance_schema.replication_connection_configuration",
        "SELECT ON performance_schema.replication_applier_status_by_worker",
        "SELECT ON performance_schema.replication_applier_status_by_coordinator",
    ),
    source_options=("read_only=OFF", "super_read_only=OFF"),
    replica_options=("skip_replica_start=OFF",),
    follow_source=(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_USER='{user}', SOURCE_PASSWORD='{password}', "
        "SOURCE_AUTO_POSITION=1, SOURCE_HEARTBEAT_PERIOD=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
    ),
    replication_login_file=False,
)
MARIADB = DatabaseServer(
    engine="mariadb",
    image_id=MARIADB_IMAGE_ID,
    initialise=(
        "mariadb-install-db --user=mysql --skip-test-db --skip-name-resolve --force "
        "--auth-root-authentication-method=normal"
    ),
    writable="SET GLOBAL read_only = OFF",
    empty_history="SET GLOBAL gtid_slave_pos = ''",
    # The second one: to see what of its binary logs the source still has.
    replication_rights="REPLICATION SLAVE, BINLOG MONITOR",
    health_grants=("REPLICA MONITOR ON *.*",),
    source_options=("read_only=OFF",),
    # A name of the owner's own, which a MariaDB cannot be told to change while it runs.
    replica_options=("skip_slave_start=OFF", "innodb_buffer_pool_filename=page_list"),
    follow_source=(
        "CHANGE MASTER TO MASTER_HOST='{host}', MASTER_USER='{user}', MASTER_PASSWORD='{password}', "
        "MASTER_HEARTBEAT_PERIOD=1, MASTER_USE_GTID=slave_pos; START SLAVE"
    ),
    # Its channel's password is in no table: the image brings it (docs/permissions.md).
    replication_login_file=True,
)
SERVERS = {server.engine: server for server in (MYSQL, MARIADB)}
