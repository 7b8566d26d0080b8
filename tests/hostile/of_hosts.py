"""What runs on a replica: parameters, files, answers of MySQL and of programs, other hosts' words, bytes of volumes."""

# ruff: noqa: E501
from __future__ import annotations

import contextlib
import json
import struct
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from peaker_host import cli
from peaker_host.blocks import (
    block_list,
    database_files,
    filesystem_maps,
    live_blocks,
    log_replay,
    timed_reads,
)
from peaker_host.cli import MAX_CHARACTERS, result_line
from peaker_host.database import (
    data_paths,
    mysql_client,
    page_load,
    replica_status,
)
from peaker_host.database.client_statements import read_counters
from peaker_host.donor import base_checks
from peaker_host.health import policy, sample
from peaker_host.health.server import HealthServer, LastAnswer
from peaker_host.layouts import commands as layout_commands
from peaker_host.layouts import image_fit, lvm_reports
from peaker_host.machine import devices, files, image_server, manifest
from peaker_host.machine.errors import (
    HostError,
    InvalidArgument,
)
from peaker_host.machine.settings import Machine, load_settings
from peaker_host.prove import knee, load_test
from peaker_host.replicate import identity, replication, source_login
from peaker_host.warm import control
from peaker_host.warm.reading_order import PrewarmRequest
from peaker_host.warm.record import Record

from tests.hostile.entry_point import (
    BYTES,
    DOCUMENT,
    JSON_TEXT,
    ROWS,
    TEXT,
    WORDS,
    EntryPoint,
    Form,
    told_plainly,
)
from tests.hostile.payloads import INJECTIONS
from tests.hostile.places import answering, file_with, folder, host_settings, saying, server

RUN = "scale-out-orders-20261121T014000-9f3a"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
VOLUMES = [
    {
        "name": "data", "volume_id": "vol-0a1b2c3d4e5f60718", "device": "/dev/sdf",
        "mount_point": "/var/lib/mysql", "filesystem": "xfs",
    },
    {
        "name": "log", "volume_id": "vol-0a1b2c3d4e5f60719", "device": "/dev/sdg",
        "mount_point": "/var/lib/mysql-log", "filesystem": "ext4",
    },
]  # fmt: skip
STACK = {
    "mount_point": "/var/lib/mysql", "filesystem": "xfs", "uuid": UUID, "size_bytes": 8 << 30, "kind": "raid0_lvm",
    "volumes": [
        {"volume_id": "vol-0a1b2c3d4e5f60718", "size_bytes": 4 << 30, "label": UUID},
        {"volume_id": "vol-0a1b2c3d4e5f60719", "size_bytes": 4 << 30, "label": UUID},
    ],
    "arrays": [{
        "uuid": "68ba530e:a5a8ae46:bae47bb8:8b2ca788", "level": "raid0", "algorithm": "", "chunk_bytes": 65536,
        "member_bytes": 4 << 30, "metadata": "1.2",
        "slots": [
            {"slot": 0, "volume_id": "vol-0a1b2c3d4e5f60718", "data_offset_bytes": 1 << 20},
            {"slot": 1, "volume_id": "vol-0a1b2c3d4e5f60719", "data_offset_bytes": 1 << 20},
        ],
    }],
    "logical_volume": {
        "uuid": "lv", "name": "data", "group_uuid": "vg", "group": "mysql",
        "physical_volumes": [{"uuid": "pv", "on": "68ba530e:a5a8ae46:bae47bb8:8b2ca788"}],
        "segments": [{
            "start_bytes": 0, "length_bytes": 8 << 30, "stripe_bytes": 0,
            "stripes": [{"physical_volume": "pv", "start_bytes": 1 << 20}],
        }],
    },
}  # fmt: skip
PEERS = [{"instance_id": "i-0a1b2c3d4e5f60718", "address": "10.77.2.11"}]
POLICY = {
    "lag_seconds": 5.0, "floor_replicas": 1,
    "source_serves_reads": False, "peers": PEERS,
}  # fmt: skip
MANIFEST = {
    "run_id": RUN,
    "members": [{**one, "path": "/dev/loop0", "size_bytes": 4 << 30, "uuid": UUID} for one in VOLUMES],
}
BLOCK_LISTS = [
    {"block_bytes": 524288, "volumes": {"data": "0-99,105,200-299"}},
    {"block_bytes": 524288, "volumes": {"data": "7", "log": ""}},
]
LIVE_BLOCKS = {
    "vol-1": {"blocks": [[0, 100], [105, 1]], "urgent": [[3, 2]]},
}
PREWARM = {
    "state": "done", "run_id": RUN, "method": "used", "with_remainder": False, "pid": 4711, "blocks_done": 10,
    "blocks_total": 10, "bytes_read": 5242880, "rate_mib_per_s": 100.0, "eta_seconds": 0.0, "elapsed_seconds": 2.5,
    "hot_warm_seconds": 1.5, "restarts": 0,
}  # fmt: skip
STATUS: dict[str, str | None] = {
    "Source_Host": "10.77.1.10", "Source_User": "repl", "Source_Port": "3306", "Replica_IO_Running": "Yes",
    "Replica_SQL_Running": "Yes", "Seconds_Behind_Source": "0", "Last_IO_Errno": "0", "Last_IO_Error": "",
    "Last_SQL_Errno": "0", "Last_SQL_Error": "", "Source_Log_File": "binlog.000007", "Read_Source_Log_Pos": "4711",
    "Channel_Name": "",
}  # fmt: skip
MARIADB_STATUS: dict[str, str | None] = {
    name.replace("Source", "Master").replace("Replica_", "Slave_"): value for name, value in STATUS.items()
} | {"Gtid_IO_Pos": "0-1-77", "Connection_name": ""}
FACTS = {
    "read_only": 1, "instruments": 1, "received": f"{UUID}:1-77", "executed": f"{UUID}:1-77", "heartbeats": 12,
    "heartbeat_interval_seconds": 1.0, "contact_age_seconds": 0.4, "unapplied_seconds": None, "on": 1,
    "statements": 5000, "errors": 0, "picoseconds": 10**12, "connections": 3, "running_statements": 1, "transactions": 0,
    "server_uuid": UUID, "server_id": 7, "server_version": "8.4.3", "version": "8.4.3", "datadir": "/var/lib/mysql/",
    "socket": "/run/mysqld/mysqld.sock", "waits_for_start": 1, "gtid_set": f"{UUID}:1-77", "gtid": f"{UUID}:1-77",
    "purged": "", "seconds": 604800, "innodb_buffer_pool_dump_pct": 25, "innodb_buffer_pool_filename": "ib_buffer_pool",
}  # fmt: skip
SERVER = {"json": FACTS, "rows": [STATUS]}
MARIADB = {"json": {**FACTS, "received": "0-1-77", "executed": "0-1-77"}, "rows": [MARIADB_STATUS]}
LOGIN = {
    "json": FACTS,
    "rows": [{
        "Host": "source.example", "Port": "3306", "User_name": "repl", "User_password": "secret", "Enabled_ssl": "1",
        "Ssl_ca": "/etc/ca.pem", "Ssl_verify_server_cert": "1", "Get_public_key": "1", "Public_key_path": "/etc/k.pem",
        "Log_name": "mariadb-bin.000001",
    }],
}  # fmt: skip
VARIABLES = {
    "rows": [
        {"Variable_name": name, "Value": value}
        for name, value in (
            ("datadir", "/var/lib/mysql/"), ("innodb_data_file_path", "ibdata1:12M:autoextend"), ("tmpdir", "/tmp"),
            ("log_bin_basename", "/var/lib/mysql-log/binlog"),
        )
    ]
}  # fmt: skip
CHANNEL = {
    "version": 1, "engine": "mariadb",
    "status": {
        "Master_Host": "10.77.1.10", "Master_Port": "3306", "Master_SSL_Allowed": "Yes", "Replicate_Do_DB": "shop",
        "Master_SSL_CA_File": "/etc/ca.pem", "Replicate_Ignore_Server_Ids": "1, 2", "Replicate_Do_Domain_Ids": "3",
    },
}  # fmt: skip
PERSISTED = {
    "Version": 2,
    "mysql_dynamic_variables": {
        "server_id": {"Value": "7", "Metadata": {"Timestamp": 1}},
        "max_connections": {"Value": "9"},
    },
}
IOSTAT = {
    "sysstat": {
        "hosts": [{
            "nodename": "h",
            "statistics": [{"disk": [{
                "disk_device": "nvme1n1", "r/s": 900.0, "w/s": 0.0, "rkB/s": 14400.0, "r_await": 0.9, "rareq-sz": 16.0,
                "aqu-sz": 0.9, "util": 80.0,
            }]}] * 2,
        }]
    }
}  # fmt: skip
FIO = {
    "jobs": [{
        "error": 0,
        "read": {
            "iops": 900.0, "bw": 14400, "total_ios": 9000, "runtime": 10000,
            "clat_ns": {"mean": 1e6, "percentile": {"50.000000": 9e5, "99.000000": 3e6}},
        },
    }]
}  # fmt: skip
NVME = {
    "total_read_ops": 9,
    "ebs_volume_performance_exceeded_iops": 0,
    "ec2_instance_ebs_performance_exceeded_tp": 3,
}
EXAMINED = f"""/dev/nvme1n1:
        Version : 1.2
     Array UUID : 68ba530e:a5a8ae46:bae47bb8:8b2ca788
     Raid Level : raid5
   Raid Devices : 3
 Avail Dev Size : 391168 sectors (191.00 MiB 200.28 MB)
    Data Offset : 2048 sectors
    Device UUID : {UUID}
         Events : 20
         Layout : left-symmetric
     Chunk Size : 64K
   Device Role : Active device 1
   Array State : AAA ('A' == active, '.' == missing, 'R' == replacing)
"""
PVS = {"report": [{"pv": [{
    "pv_name": "/dev/nvme1n1", "pv_uuid": "a", "vg_name": "g", "vg_uuid": "G", "pe_start": "1048576",
    "vg_extent_size": "4194304", "vg_missing_pv_count": "0",
}]}]}  # fmt: skip
LVS = {"report": [{"seg": [{
    "lv_name": "data", "lv_uuid": "L", "vg_name": "g", "vg_uuid": "G", "segtype": "linear", "seg_start": "0",
    "seg_size": "16777216", "stripe_size": "0", "seg_pe_ranges": "/dev/nvme1n1:0-3",
}]}]}  # fmt: skip
BODY = {"state": "bad", "only_lag": True, "staleness_seconds": 7.5, "why": "lag 7.5 s is over 5 s"}
DEBUGFS = (
    'debugfs: ls -p "/"\n/2/040755/0/0/.//\n/2/040755/0/0/..//\n/12/040755/0/0/mysql//\n/13/100640/0/0/ib_buffer_pool/512/\n'
    "debugfs: dump_extents <13>\nLevel Entries       Logical          Physical Length Flags\n"
    " 0/ 0   1/  1     0 -     7 33280 - 33287      8\n"
)
XFS_DB = (
    "@0\n1  131  directory 0x0000002e 1 . (good)\n2  133  directory 0x1f2c2e0d 5 mysql (good)\n"
    "3  134  regular   0x1f2c2e0e 14 ib_buffer_pool (good)\ndata offset 0 startblock 12 (0/12) count 8 flag 0\n"
)


DONOR_FACTS = {"server version": [8, 4, 6], "innodb_page_size": "16384", "datadir": "/var/lib/mysql",
               "owner of the data": [27, 27], "keyring component": {"component": "file://component_keyring_file",
                                                                    "key_file": "keys"}}  # fmt: skip
IMAGE_FACTS = {**DONOR_FACTS, "owner of the data": [112, 118, "mysql"], "SELinux": True, "AppArmor": ["/data"],
               "keyring component": {"components": [], "of_copy": False, "has_key_file": True}, "programs": []}  # fmt: skip


def _image_against(text: str) -> Any:
    return image_fit.compare(layout_commands._facts(text), IMAGE_FACTS)


def entries() -> list[EntryPoint]:
    """All of them."""
    return [*_arguments(), *_files(), *_databases(), *_programs(), *_neighbours(), *_volumes()]


def _arguments() -> Iterator[EntryPoint]:
    refused = (InvalidArgument,)
    yield EntryPoint(
        "volumes of assemble_storage", JSON_TEXT, manifest.parse_volumes, (VOLUMES,), refused, _names_are_names,
    )  # fmt: skip
    yield EntryPoint(
        "set manifest of assemble_storage", JSON_TEXT, manifest.parse_stacks, ([STACK],), refused, _sets_hold_together,
    )  # fmt: skip
    yield EntryPoint(
        "donor's facts of assemble_storage", JSON_TEXT, _image_against, (DONOR_FACTS,), (ArgumentTypeError,),
    )  # fmt: skip
    yield EntryPoint(
        "health policy", JSON_TEXT, policy.parse_policy, (POLICY,), refused,
        _stored_policy_is_read,
    )  # fmt: skip
    yield EntryPoint(
        "arguments of host commands", WORDS, _parsed_words,
        (
            ["start_replication", "--run-id", RUN, "--source-host", "10.77.0.10"],
            ["report_health", "--run-id", RUN, "--health", json.dumps(POLICY)],
            ["start_prewarm", "--run-id", RUN, "--background-rate-mib-per-s", "0"],
            ["prepare_base", "--run-id", RUN, "--engine", "mysql", "--health-port", "9200", "--filesystems",
             "/var/lib/mysql=xfs", "--least-binlog-seconds", "9", "--health", "{}"],
            ["wait_for_catch_up", "--run-id", RUN, "--lag-gate-seconds", "5", "--lag-samples", "3"],
        ),
        (InvalidArgument, SystemExit), _run_ids_are_names, 0.4,
    )  # fmt: skip
    yield EntryPoint(
        "result line",
        DOCUMENT,
        lambda case: result_line(case if isinstance(case, dict) else {"value": case}),
        ({**PREWARM, "samples": [[1.0] * 5] * 60},),
        (),
        _fits,
    )


def _parsed_words(words: list[str]) -> Any:
    import io

    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        return cli.parser().parse_args(words)


def _files() -> Iterator[EntryPoint]:
    own = (HostError,)

    def of(
        name: str, call: Callable[[], Any], file: str, *examples: Any, form: Form = JSON_TEXT,
        after: Callable[[Any, Any], None] = told_plainly,
    ) -> EntryPoint:  # fmt: skip
        def given(case: str) -> Any:
            file_with(case, file)
            return call()

        return EntryPoint(name, form, given, examples, own, after)

    run = f"state/runs/{RUN}"
    settings = host_settings()
    path = file_with("", "host.json")
    yield of(
        "host.json", lambda: load_settings(path), "host.json", {"engine": "mariadb", "health_port": 9201},
    )  # fmt: skip
    yield of("a file of ours", lambda: files.read_json(str(folder() / "own.json")), "own.json", {"a": 1})
    yield of(
        "health.json", lambda: policy.load_policy(settings), "health.json", POLICY,
    )  # fmt: skip
    yield of(
        "storage.json", lambda: manifest.present_manifest(settings), "state/storage.json", MANIFEST,
    )  # fmt: skip
    yield of(
        "blocks.json", lambda: block_list.of_run(settings, RUN), f"{run}/blocks.json", *BLOCK_LISTS, after=_ranges_ascend,
    )  # fmt: skip
    yield of(
        "live_blocks.json", lambda: live_blocks.kept_live_blocks(settings, RUN), f"{run}/live_blocks.json", LIVE_BLOCKS,
    )  # fmt: skip
    yield of(
        "prewarm.json, told", lambda: control.report(settings, RUN), f"{run}/prewarm.json", PREWARM,
    )  # fmt: skip
    yield of(
        "prewarm.json, gone on with",
        lambda: Record(settings, PrewarmRequest(RUN), str),
        f"{run}/prewarm.json", PREWARM,
    )  # fmt: skip
    yield of(
        "mountinfo", lambda: devices.read_mounts(str(folder() / "mountinfo")), "mountinfo",
        "36 35 259:1 / /var/lib/mysql rw,noatime shared:1 - xfs /dev/nvme1n1 rw,attr2\n", form=TEXT,
    )  # fmt: skip
    yield of(
        "cold_probe.json", lambda: timed_reads.kept(settings, RUN), f"{run}/cold_probe.json",
        {"vol-1": {"blocks": [1, 2], "await_ms": 3.5, "first_ms": 3.0, "within_ms": 0.7}},
    )  # fmt: skip
    yield of(
        "donor-settings.json", _dump_settings_put_back, "state/donor-settings.json",
        {"set": {"innodb_buffer_pool_dump_pct": 100}, "was": {"innodb_buffer_pool_dump_pct": 25}},
        {"set": {"innodb_buffer_pool_filename": "ib_buffer_pool"}, "was": {"innodb_buffer_pool_filename": "own"}}, after=_no_payload_in_statements,
    )  # fmt: skip
    yield of(
        "load-settings.json", _load_settings_put_back, "state/load-settings.json",
        {"set": {"innodb_io_capacity": 20000}, "was": {"innodb_io_capacity": 200}},
        after=_no_payload_in_statements,
    )  # fmt: skip
    yield of(
        "replication.json",
        lambda: source_login.read_credentials(settings, server(LOGIN)),
        "replication.json", {"user": "repl", "password": "secret", "port": 3307},
    )  # fmt: skip
    yield of(
        "peaker-channel.json", _joined, "data/peaker-channel.json", CHANNEL,
        after=_no_payload_in_statements,
    )  # fmt: skip
    yield of(
        "mysqld-auto.cnf", lambda: identity.take_identity(settings, 7), "data/mysqld-auto.cnf", PERSISTED,
    )  # fmt: skip
    yield of(
        "auto.cnf", lambda: identity.uuid_of_copy(settings), "data/auto.cnf", f"[auto]\nserver-uuid={UUID}\n", form=TEXT,
    )  # fmt: skip


def _dump_settings_put_back() -> list[str]:
    programs = answering(SERVER)
    client = mysql_client.MysqlClient(programs, "mysql", "/defaults")
    page_load.restore_dump_settings(client, host_settings())
    return programs.told


def _load_settings_put_back() -> list[str]:
    programs = answering(SERVER)
    page_load.temporary_capacities(host_settings()).restore(
        mysql_client.MysqlClient(programs, "mysql", "/defaults")
    )
    return programs.told


def _joined() -> list[str]:
    """The statements with which MariaDB's channel is made from the donor's record."""
    settings = host_settings(engine="mariadb", replication_credentials_file="/nonexistent")
    source_login.refuse_other_filters(server(MARIADB), "mariadb", settings.datadir)
    status = source_login.read_record(settings.datadir).get("status", {})
    Path(folder() / "replication.json").write_text('{"user": "repl", "password": "p"}', encoding="utf-8")
    login = source_login.read_credentials(host_settings(engine="mariadb"), server(MARIADB))
    return replication.join_statements("mariadb", "10.0.0.1", login, "", status)


def _databases() -> Iterator[EntryPoint]:
    own = (HostError,)
    settings = host_settings(replication_credentials_file="/nonexistent")
    mariadb = host_settings(engine="mariadb")
    sets = (f"{UUID}:1-5:8,\n{UUID.replace('3', '4')}:tag:1-77", f"{UUID}:1")
    yield EntryPoint("GTID set", TEXT, replica_status.parse_gtid_set, sets, own)
    yield EntryPoint(
        "GTID sets compared", TEXT, lambda case: replica_status.count_missing(case, sets[0]) + replica_status.count_missing(sets[0], case),
        sets, own,
    )  # fmt: skip
    yield EntryPoint(
        "MariaDB positions", TEXT, lambda case: replica_status.count_missing_mariadb(case, "0-1-7"), ("0-1-77,1-2-9",), own,
    )  # fmt: skip
    for engine, row in (("mysql", STATUS), ("mariadb", MARIADB_STATUS)):
        yield EntryPoint(
            f"replica status, {engine}", ROWS, lambda case, engine=engine: replica_status.status_from(case, engine),
            ([row],), own,
        )  # fmt: skip
    yield EntryPoint(
        "the client's output", TEXT, _asked_in_every_way, ('result\n{"x": 1}\n', "result\n{\\\\n\nName\tValue\na\tNULL\n"), own,
    )  # fmt: skip

    def of(name: str, call: Callable[[Any], Any], *examples: Any, after: Any = told_plainly) -> EntryPoint:
        return EntryPoint(name, DOCUMENT, call, examples or (SERVER,), own, after)

    yield of(
        "statement counters",
        lambda case: read_counters(server(case)),
    )
    yield of(
        "client activity", lambda case: replication.client_activity(Machine.of(settings, answering(case))),
    )  # fmt: skip
    yield of(
        "identity",
        lambda case: identity.read_identity(server(case), settings),
    )
    yield of("facts of a base", lambda case: base_checks.read_facts(server(case)))
    yield of(
        "numbers of a base",
        lambda case: base_checks.server_numbers(server(case), "mysql"),
    )
    yield of("checks of a base", _base_looked_at)
    for engine, example in (("mysql", SERVER), ("mariadb", MARIADB)):
        yield of(
            f"health sample, {engine}", lambda case, engine=engine: _sampled(case, engine),
            example, after=_nothing_unknown_is_good,
        )  # fmt: skip
    yield of(
        "channels", lambda case: (replica_status.only_channel(server(case), "mysql"), replica_status.only_channel(server(case), "mariadb")),
    )  # fmt: skip
    yield of(
        "login in the data directory", lambda case: _logged_in(settings, case),
        LOGIN, after=_one_option_a_line,
    )  # fmt: skip
    yield of(
        "position of the source", lambda case: source_login.ask_position(
            Machine.of(mariadb, answering(case)), "10.0.0.1", source_login.Credentials("u", "p", 3306), str
        ), LOGIN,
    )  # fmt: skip
    yield of(
        "binary log retention", lambda case: source_login.source_binlog_expire_seconds(Machine.of(settings, answering(case)), server(case)), {"json": FACTS, "rows": [{**STATUS, **LOGIN["rows"][0]}]},
    )  # fmt: skip
    yield of("data paths", _paths, VARIABLES)
    yield of("where variables come from", lambda case: identity._places(server(case), "mysql", ["server_id"]), {"rows": [{"VARIABLE_NAME": "a", "VARIABLE_SOURCE": "b", "VARIABLE_PATH": "c"}]})  # fmt: skip
    yield of("statements of the copy's channel", _mysql_statements, LOGIN,
             after=_no_payload_in_statements)  # fmt: skip


def _asked_in_every_way(case: str) -> Any:
    client = mysql_client.MysqlClient(saying(case), "mysql", "/defaults")
    found: list[Any] = []
    for ask in (
        lambda: client.rows("SELECT 1"),
        lambda: client.json({"x": "1"}),
        lambda: client.json_and_rows({"x": "1"}, "SHOW REPLICA STATUS"),
    ):
        try:
            found.append(ask())
        except HostError as error:
            found.append(error)
    return found


def _sampled(case: Any, engine: str) -> sample.Sample:
    return sample.take_sample(
        server(case), engine, policy.HealthPolicy(), {"/": 50.0}, sample.SourceSilence(), 100.0
    )


def _base_looked_at(case: Any) -> Any:
    return base_checks.look_at_server(
        Machine.of(host_settings(), answering(case)), server(case), base_checks.ServerFacts("8.4.3", "/var/lib/mysql", ""),
        (base_checks.Filesystem("/var/lib/mysql", "xfs"),), 9, {"/var/lib/mysql": "xfs"},
    )  # fmt: skip


def _logged_in(settings: Any, case: Any) -> str:
    """The option file of a login with what the data directory says."""
    found = source_login.read_credentials(settings, server(case))
    with source_login.login_at(Machine.of(settings, answering(case)), "10.0.0.1", found) as client:
        return Path(client._argv[1].partition("=")[2]).read_text(encoding="utf-8")


def _mysql_statements(case: Any) -> list[str]:
    settings = host_settings(replication_credentials_file="/nonexistent")
    login = source_login.read_credentials(settings, server(case))
    channel = replica_status.only_channel(server(SERVER), "mysql") or ""
    return replication.join_statements("mysql", login.host or "h", login, channel or login.user)


def _paths(case: Any) -> Any:
    return data_paths.refuse_outside(server(case), "mysql", ["/var/lib/mysql"], ["/", "/var/lib/mysql"])


UNIT_SHOWN = "Id=mysqld.service\nLoadState=loaded\nExecStart={ path=/usr/sbin/mysqld ; argv[]=/usr/sbin/mysqld --a=1 ; pid=0 }\n"
PRINTED_DEFAULTS = "mysqld would have been started with the following arguments:\n--datadir=/srv/mysql --log-error=/srv/e.log \n"


def _programs() -> Iterator[EntryPoint]:
    own = (HostError,)
    yield EntryPoint(
        "iostat beside the load", JSON_TEXT, lambda case: load_test.summarise_iostat(case, "nvme1n1"), (IOSTAT,), own,
    )  # fmt: skip
    yield EntryPoint(
        "iostat beside the knee",
        JSON_TEXT,
        lambda case: knee.summarise_witness(case, "nvme1n1"),
        (IOSTAT,),
        (),
    )
    yield EntryPoint(
        "fio", JSON_TEXT, lambda case: load_test._run_fio(saying(case), "/log", 10), (FIO,), own,
    )  # fmt: skip
    yield EntryPoint(
        "nvme stats", JSON_TEXT, lambda case: load_test.nvme_counters(saying(case), "nvme1n1"), (NVME,), (),
    )  # fmt: skip
    yield EntryPoint(
        "mdadm --examine", TEXT, lambda case: lvm_reports.parse_examine("/dev/nvme1n1", case), (EXAMINED,), own,
    )  # fmt: skip
    yield EntryPoint(
        "a unit as systemctl shows it", TEXT,
        lambda case: image_server.known_units(saying(case), image_server.UNITS), (UNIT_SHOWN,), own,
    )  # fmt: skip
    yield EntryPoint(
        "the options of an image's server", TEXT,
        lambda case: image_server.ImageServer(saying(case), image_server.ServerUnit("mysql"), ("mysqld",)).options(),
        (PRINTED_DEFAULTS,), own,
    )  # fmt: skip
    yield EntryPoint("pvs", JSON_TEXT, lvm_reports.parse_pvs, (PVS,), own)
    yield EntryPoint("lvs", JSON_TEXT, _logical_volume, (LVS,), own)
    ext = file_with(_ext4(), "ext4")
    xfs = file_with(_xfs(), "xfs")
    yield EntryPoint(
        "debugfs", TEXT, lambda case: _walked(filesystem_maps.ExtMap, ext, case), (DEBUGFS,), own,
        _no_command_slipped_in,
    )  # fmt: skip
    yield EntryPoint(
        "xfs_db", TEXT, lambda case: _walked(filesystem_maps.XfsMap, xfs, case), (XFS_DB,), own, _no_command_slipped_in,
    )  # fmt: skip


def _logical_volume(case: str) -> Any:
    places = {"vol-0a1b2c3d4e5f60718": lvm_reports.parse_pvs(json.dumps(PVS))[0]}
    return lvm_reports.logical_volume("data", lvm_reports.rows_of(case, "seg"), places)


def _walked(kind: Any, path: str, case: str) -> list[str]:
    programs = saying(case)
    reader = kind(path, programs)
    with contextlib.suppress(HostError):
        database_files.find_database(reader)
    return programs.told


def _neighbours() -> Iterator[EntryPoint]:
    yield EntryPoint(
        "a peer's body", JSON_TEXT, _heard, (BODY,), (), _lag_is_a_number,
    )  # fmt: skip
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(BODY).encode()
    yield EntryPoint(
        "a peer's answer",
        BYTES,
        policy._answer,
        (answer,),
        (ValueError,),
    )
    request = b"GET /health HTTP/1.1\r\nHost: 10.0.0.1:9200\r\nUser-Agent: probe\r\n\r\n"
    yield EntryPoint(
        "a probe's request", BYTES, _answered, (request, b"HEAD / HTTP/1.0\n\n"), (),
        _no_word_of_the_request,
    )  # fmt: skip
    yield EntryPoint(
        "what the looking process tells", JSON_TEXT, lambda case: LastAnswer().hear(case.encode("utf-8", "replace"), 1.0),
        ([200, BODY],), (),
    )  # fmt: skip


def _heard(case: str) -> policy.Standing:
    try:
        body = policy._body(case.encode("utf-8", "replace"))
    except ValueError:
        return policy.Standing("i-1", "unreachable")
    return policy.standing_from("i-1", body)


def _answered(case: bytes) -> bytes:
    served = HealthServer([], lambda: (200, {"state": "good"}))
    try:
        return served._response(case, b"\r\n\r\n" in case or b"\n\n" in case)
    finally:
        served.close()


def _volumes() -> Iterator[EntryPoint]:
    own = (HostError,)

    def on_disk(call: Callable[[str], Any]) -> Callable[[bytes], Any]:
        return lambda case: call(file_with(case, "volume"))

    heads = (_xfs(), _ext4())
    yield EntryPoint(
        "superblock",
        BYTES,
        on_disk(devices.read_superblock),
        heads,
        own,
    )
    for kind in ("xfs", "ext4"):
        yield EntryPoint(
            f"what mounting reads, {kind}", BYTES,
            on_disk(lambda path, kind=kind: log_replay.mount_blocks(kind, path, 1 << 40)), heads, own, weight=0.3,
        )  # fmt: skip
    header = struct.pack(">9I", *range(9)) + bytes(2) + struct.pack(">2I", 7, 0x15) + bytes(100)
    yield EntryPoint(
        "tablespaces", BYTES,
        on_disk(lambda path: database_files.read_tablespaces(path, {"t.ibd": [(0, 0, 16384)]}, "mariadb")),
        (header,), own, weight=0.3,
    )  # fmt: skip
    yield EntryPoint(
        "page list", BYTES, lambda case: list(database_files.pages_in([case[:50], case[50:]])),
        (b"12,4\n12,5\n9,77777\n",), (),
    )  # fmt: skip


def _xfs() -> bytes:
    head = bytearray(8192)
    head[:4] = b"XFSB"
    struct.pack_into(">IQ", head, 4, 4096, 1 << 18)
    struct.pack_into(">Q", head, 48, 1 << 16)
    struct.pack_into(">II", head, 84, 1 << 16, 4)
    struct.pack_into(">I", head, 96, 2560)
    head[124] = 16
    return bytes(head)


def _ext4() -> bytes:
    head = bytearray(8192)
    struct.pack_into("<I", head, 1024 + 4, 1 << 18)
    struct.pack_into("<I", head, 1024 + 24, 2)
    struct.pack_into("<I", head, 1024 + 32, 32768)
    head[1024 + 56 : 1024 + 58] = b"\x53\xef"
    return bytes(head)


# --- what must not be there afterwards


def _names_are_names(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        assert all(one.volume_id.isascii() and one.volume_id.isprintable() for one in answer)
        assert all(one.mount_point.isprintable() and ".." not in one.mount_point.split("/") for one in answer)


def _sets_hold_together(case: Any, answer: Any) -> None:
    """No name is an option of mdadm's or LVM's, and the set can be moved to other volumes."""
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        for stack in answer:
            assert stack.with_volumes({one: one for one in stack.volume_ids}) == stack
            assert not any(array.uuid.startswith("-") for array in stack.arrays)


def _stored_policy_is_read(case: Any, answer: Any) -> None:
    """What is stored must be what the responder can go by."""
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        settings = host_settings()
        Path(settings.health_policy_file).unlink(missing_ok=True)
        policy.store_policy(settings, answer)
        peers = policy.load_policy(settings).peers
        assert all(one.address.isprintable() and not set(one.address) & set(" /@#?\\") for one in peers)


def _run_ids_are_names(case: Any, answer: Any) -> None:
    if not isinstance(answer, BaseException):
        run_id = getattr(answer, "run_id", "")
        assert run_id.isprintable()
        assert not set(run_id) & set("/. $")


def _fits(case: Any, answer: Any) -> None:
    assert "\n" not in answer
    assert len(answer) <= MAX_CHARACTERS


def _ranges_ascend(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        for ranges in answer.values():
            ends = [0] + [start + length for start, length in ranges]
            assert all(
                start >= end and length > 0 for (start, length), end in zip(ranges, ends, strict=False)
            )


def _no_payload_in_statements(case: Any, answer: Any) -> None:
    """Outside of a quoted text nothing of the case stands in a statement."""
    told_plainly(case, answer)
    if isinstance(answer, Exception):
        return
    for statement in answer:
        bare = _without_literals(statement)
        assert "touch" not in bare, bare
        assert "DROP" not in bare, bare


def _without_literals(statement: str) -> str:
    kept, quoted, index = [], False, 0
    while index < len(statement):
        character = statement[index]
        if quoted and character == "\\":
            index += 1
        elif character == "'":
            quoted = not quoted
        elif not quoted:
            kept.append(character)
        index += 1
    assert not quoted, f"a text that never ends: {statement[:200]}"
    return "".join(kept)


def _one_option_a_line(case: Any, answer: Any) -> None:
    """An option file has the lines that it should have, whatever is in their values."""
    told_plainly(case, answer)
    if not isinstance(answer, Exception):
        known = {
            "[client]", "host", "port", "user", "password", "protocol", "ssl-mode", "ssl-ca", "ssl-capath", "ssl-cert",
            "ssl-key", "ssl-cipher", "ssl-crl", "ssl-crlpath", "get-server-public-key", "server-public-key-path",
        }  # fmt: skip
        names = {line.split("=", 1)[0] for line in answer.split("\n") if line}
        assert names <= known, names - known


def _nothing_unknown_is_good(case: Any, answer: Any) -> None:
    if not answer.problem:
        assert answer.read_only is True
        assert answer.lag_seconds is not None
        assert 0 <= answer.lag_seconds <= 5.0


def _no_command_slipped_in(case: Any, answer: Any) -> None:
    for told in answer:
        for line in told.splitlines():
            assert line.startswith(('ls -p "/', "dump_extents <")), line
            assert "touch" not in line or '"' not in line[7:-1], line


def _lag_is_a_number(case: Any, answer: Any) -> None:
    assert answer.state in ("good", "lagging", "out", "unreachable")
    assert 0 <= answer.staleness_seconds < float("inf")


def _no_word_of_the_request(case: bytes, answer: bytes) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 ")
    assert not any(payload.encode("utf-8", "replace") in body for payload in INJECTIONS if len(payload) > 8)
