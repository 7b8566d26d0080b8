"""Donors whose copies could not start or follow their source are refused before anything is snapshotted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_bench import (
    MIB,
    RUNNING,
    A,
    B,
    Host,
    ScriptedProcesses,
    json_row,
    mounts_of,
    pool_settings,
    quiet,
    status,
    table,
    variables,
)
from peaker_host.database import data_paths
from peaker_host.database.data_paths import DataPath, Misplaced, misplaced
from peaker_host.donor import prepare_donor
from peaker_host.machine.errors import (
    CommandFailed,
    DataOutsideVolumes,
    DonorIsSource,
    ErrantTransactions,
    FiltersDiffer,
    HostError,
    UnsupportedChannels,
)
from peaker_host.replicate.source_login import read_record, refuse_other_filters, write_record

VOLUMES = ["/var/lib/mysql", "/var/lib/mysql-log"]
MOUNTS = ["/", "/run", "/srv", *VOLUMES]
USUAL = {
    "datadir": "/var/lib/mysql/",
    "innodb_data_home_dir": "",
    "innodb_data_file_path": "ibdata1:12M:autoextend",
    "innodb_undo_directory": "./",
    "innodb_log_group_home_dir": "/var/lib/mysql-log",
    "innodb_doublewrite_dir": "",
    "log_bin_basename": "/var/lib/mysql-log/binlog",
    "log_bin_index": "/var/lib/mysql-log/binlog.index",
    "relay_log_basename": "/var/lib/mysql-log/relay",
    "relay_log_index": "/var/lib/mysql-log/relay.index",
    "tmpdir": "/tmp",
    "innodb_temp_tablespaces_dir": "./#innodb_temp/",
}


def prepare(host: Host, programs: ScriptedProcesses) -> None:
    prepare_donor.prepare_donor(host.machine(programs), VOLUMES, quiet)


@pytest.fixture
def replica(programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch) -> ScriptedProcesses:
    monkeypatch.setattr(data_paths, "read_mounts", lambda: mounts_of(dict.fromkeys(MOUNTS, "xfs")))
    monkeypatch.setattr(data_paths, "links_in", lambda _datadir: [])
    programs.on("SHOW REPLICA STATUS", answer=status())
    programs.on("super_read_only", answer=json_row(read_only=1))
    programs.on("SHOW GLOBAL VARIABLES", answer=variables(**USUAL))
    return programs.on("information_schema.FILES", answer="")


def wrong(paths: dict[str, str], mounts: list[str] = MOUNTS) -> list[Misplaced]:
    return misplaced(data_paths.data_paths({**USUAL, **paths}), VOLUMES, mounts)


class TestPaths:
    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("datadir", "/srv/mysql"),
            ("innodb_data_home_dir", "/srv/home"),
            ("innodb_undo_directory", "/srv/undo"),
            ("innodb_log_group_home_dir", "/srv/redo"),
            ("innodb_doublewrite_dir", "/srv/doublewrite"),
            ("log_bin_basename", "/srv/binlog"),
            ("relay_log_basename", "/srv/relay"),
            ("relay_log_index", "/srv/relay.index"),
            ("aria_log_dir_path", "/srv/aria"),
            ("rocksdb_wal_dir", "/srv/wal"),
        ],
    )
    def test_each_path_that_a_copy_needs_is_looked_at(self, name: str, path: str) -> None:
        assert Misplaced(name, path, "/srv") in wrong({name: path})

    def test_a_system_tablespace_elsewhere(self) -> None:
        found = wrong({"innodb_data_file_path": "ibdata1:12M;/srv/ibdata2:1G:autoextend"})
        assert found == [Misplaced("innodb_data_file_path", "/srv/ibdata2", "/srv")]

    def test_relative_paths_are_relative_to_the_data_directory(self) -> None:
        assert wrong({"innodb_undo_directory": "../mysql-log/undo"}) == []
        assert wrong({"innodb_undo_directory": "../undo"}) == [
            Misplaced("innodb_undo_directory", "/var/lib/undo", "/")
        ]

    def test_a_filesystem_mounted_within_the_data_directory(self) -> None:
        found = wrong({}, [*MOUNTS, "/var/lib/mysql/big"])
        assert found == [Misplaced("mounted in datadir", "/var/lib/mysql/big", "/var/lib/mysql/big")]

    def test_temporary_files_may_be_anywhere(self) -> None:
        inner = "/var/lib/mysql/#innodb_temp"
        paths = data_paths.data_paths(USUAL)
        assert misplaced(paths, VOLUMES, [*MOUNTS, inner], temporary=[inner]) == []

    def test_a_volume_whose_name_begins_alike_is_another_one(self) -> None:
        assert wrong({"log_bin_basename": "/var/lib/mysql-log2/binlog"}) == [
            Misplaced("log_bin_basename", "/var/lib/mysql-log2/binlog", "/")
        ]

    def test_links_count_where_they_lead(self, tmp_path: Path) -> None:
        (tmp_path / "volume").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "volume" / "redo").symlink_to(tmp_path / "elsewhere")
        path = DataPath("innodb_log_group_home_dir", str(tmp_path / "volume" / "redo"))
        mounts = ["/", str(tmp_path / "volume")]
        assert misplaced([path], mounts[1:], mounts) == [Misplaced(path.what, path.path, "/")]

    def test_a_database_that_is_dropped_meanwhile_is_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The donor applies its source's DROP DATABASE and DROP TABLE between the listing and the look."""
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "lines.isl").write_text("/srv/shop/lines.ibd\n")
        listed = data_paths._subdirectories(str(tmp_path))
        monkeypatch.setattr(data_paths, "_subdirectories", lambda _: [str(tmp_path / "dropped"), *listed])
        assert "/srv/shop/lines.ibd" in data_paths.links_in(str(tmp_path))

    def test_links_and_isl_files_of_databases_are_found(self, tmp_path: Path) -> None:
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "orders.MYD").symlink_to("/srv/orders.MYD")
        (tmp_path / "shop" / "lines.isl").write_text("/srv/shop/lines.ibd\n")
        (tmp_path / "archive").symlink_to("/srv/archive")
        (tmp_path / "shop" / "items.ibd").write_text("")
        assert set(data_paths.links_in(str(tmp_path))) == {
            "/srv/orders.MYD",
            "/srv/shop/lines.ibd",
            "/srv/archive",
        }


def test_prepare_donor_names_path_and_volumes_before_it_changes_anything(
    host: Host, replica: ScriptedProcesses
) -> None:
    replica.on("SHOW GLOBAL VARIABLES", answer=variables(**{**USUAL, "innodb_undo_directory": "/srv/undo"}))
    replica.on("information_schema.FILES", answer=table({"FILE_NAME": "/srv/shop/orders.ibd"}))
    with pytest.raises(DataOutsideVolumes) as refused:
        prepare(host, replica)
    assert "innodb_undo_directory: /srv/undo is on /srv; tablespace: /srv/shop/orders.ibd" in str(
        refused.value
    )
    assert "mounted at /var/lib/mysql, /var/lib/mysql-log" in str(refused.value)
    assert not replica.said("SET GLOBAL")


class TestErrantTransactions:
    """A DBA with SUPER wrote on the replica. Its copies would be refused by StartReplication, hours later."""

    WROTE, ASKED = ("'executed', @@GLOBAL.gtid_executed, 'uuid'",), ("gtid_purged",)

    @pytest.fixture(autouse=True)
    def asked(self, replica: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("peaker_host.replicate.errant._PAUSE_SECONDS", 0.0)
        login = {"User_name": "repl", "User_password": "p", "Port": "3306"}
        replica.on("slave_master_info", answer=table(login))
        replica.on(*self.WROTE, answer=json_row(executed=f"{A}:1-40,{B}:1-2", uuid=B))
        replica.on(*self.ASKED, answer=json_row(executed=f"{A}:1-42", purged=""))
        replica.on("innodb_buffer_pool", answer=CommandFailed("it goes on to the page list"))
        monkeypatch.setattr(prepare_donor, "discover", lambda *_: [])

    def goes_on(self, host: Host, replica: ScriptedProcesses) -> None:
        with pytest.raises(HostError) as error:
            prepare(host, replica)
        assert not isinstance(error.value, ErrantTransactions)
        assert "innodb_buffer_pool" in replica.calls[-1][1]

    def test_they_are_refused_with_their_names_before_anything_is_changed(
        self, host: Host, replica: ScriptedProcesses
    ) -> None:
        with pytest.raises(ErrantTransactions, match=f"2 transactions that the source does not: {B}:1-2"):
            prepare(host, replica)
        assert not replica.said("SET GLOBAL")

    def test_a_source_that_cannot_be_asked_refuses_nothing(
        self, host: Host, replica: ScriptedProcesses
    ) -> None:
        replica.on(*self.ASKED, answer=CommandFailed("ERROR 1045 (28000): Access denied for user 'repl'"))
        self.goes_on(host, replica)
        replica.on("slave_master_info", answer="")
        self.goes_on(host, replica)


def channel(name: str, **changes: Any) -> dict[str, Any]:
    return {**RUNNING, "Channel_Name": name, **changes}


class TestChannels:
    def test_several_channels_are_refused_by_name(self, host: Host, replica: ScriptedProcesses) -> None:
        replica.on("SHOW REPLICA STATUS", answer=table(channel("east"), channel("west"), channel("")))
        with pytest.raises(UnsupportedChannels, match="3 replication channels: 'east', 'west', the default"):
            prepare(host, replica)

    def test_group_replication_is_no_replica_of_one_source(
        self, host: Host, replica: ScriptedProcesses
    ) -> None:
        replica.on("SHOW REPLICA STATUS", answer=table(channel("group_replication_applier")))
        with pytest.raises(UnsupportedChannels, match="Group Replication"):
            prepare(host, replica)

    def test_a_named_connection_of_mariadb_is_refused_and_not_taken_for_a_source(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        host.configure(engine="mariadb")
        programs.on("SHOW SLAVE STATUS", answer="")
        programs.on("SHOW ALL SLAVES STATUS", answer=table({"Connection_name": "east"}))
        with pytest.raises(UnsupportedChannels, match="'east'"):
            prepare(host, programs)


class TestFilters:
    """What a donor does not apply, its copy must not apply either."""

    def record(self, host: Host, programs: ScriptedProcesses, **filters: str) -> None:
        Path(host.settings.datadir).mkdir(exist_ok=True)
        programs.on("SHOW REPLICA STATUS", answer=status(**filters, Source_SSL_CA_File="/etc/ca.pem"))
        write_record(host.client(programs), "mysql", host.settings.datadir)

    def check(self, host: Host, programs: ScriptedProcesses, **filters: str) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status(**filters))
        refuse_other_filters(host.client(programs), "mysql", host.settings.datadir)

    def test_the_record_has_filters_and_encryption_and_is_private(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        self.record(host, programs, Replicate_Do_DB="shop")
        assert read_record(host.settings.datadir)["status"] == {
            "Source_Host": "10.77.1.10",
            "Source_Port": "3306",
            "Replicate_Do_DB": "shop",
            "Source_SSL_CA_File": "/etc/ca.pem",
        }
        assert (Path(host.settings.datadir) / "peaker-channel.json").stat().st_mode & 0o777 == 0o600

    def test_the_same_filters_in_another_order(self, host: Host, programs: ScriptedProcesses) -> None:
        self.record(host, programs, Replicate_Do_DB="shop,orders")
        self.check(host, programs, Replicate_Do_DB="orders,shop")

    def test_other_filters_are_refused_with_both_sides(self, host: Host, programs: ScriptedProcesses) -> None:
        self.record(host, programs, Replicate_Ignore_Table="shop.audit")
        with pytest.raises(
            FiltersDiffer, match=r"Replicate_Ignore_Table: none here, shop.audit on the donor"
        ):
            self.check(host, programs)

    def test_a_copy_of_an_older_donor_has_no_record(self, host: Host, programs: ScriptedProcesses) -> None:
        Path(host.settings.datadir).mkdir()
        self.check(host, programs, Replicate_Do_DB="shop")


class TestPrepareDonor:
    def test_a_server_without_a_channel_is_a_source(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer="")
        with pytest.raises(DonorIsSource):
            prepare(host, programs)
        assert not programs.said("SET GLOBAL")

    @pytest.mark.real
    def test_the_report_has_position_size_and_pages(self, host: Host, programs: ScriptedProcesses) -> None:
        volume = host.volume(300 * MIB, "xfs")
        with host.mounted(volume) as point:
            host.configure(datadir=str(point))

            def dump(_text: str) -> str:
                (point / "ib_buffer_pool").write_text("1,1\n1,2\n")
                return ""

            programs.on("SHOW REPLICA STATUS", answer=status(Seconds_Behind_Source="2"))
            programs.on(
                "gtid_executed",
                answer=json_row(gtid_set=f"{A}:1-9,\n{B}:1", server_uuid=B),
            )
            programs.on(
                "'executed', @@GLOBAL.gtid_executed, 'uuid'", answer=json_row(executed=f"{A}:1-9", uuid=B)
            )
            login = {"User_name": "repl", "User_password": "p", "Port": "3306"}
            programs.on("slave_master_info", answer=table(login))
            programs.on("gtid_purged", answer=json_row(executed=f"{A}:1-12", purged=""))
            programs.on("datadir", answer=json_row(datadir=str(point), redo="./", binlog=f"{point}/binlog"))
            programs.on("dump_pct", answer=pool_settings(point))
            programs.on("SHOW GLOBAL VARIABLES", answer=variables(datadir=f"{point}/"))
            programs.on("information_schema.FILES").on("keyring_component_status").on("PLUGINS").on(
                "mysql.user"
            )
            programs.on("super_read_only", answer=json_row(read_only=1))
            programs.on("dump_status", answer=table({"n": "x", "Value": "completed"}))
            programs.on("SET GLOBAL").on("sync -f")
            programs.on("dump_now", answer=dump)
            programs.on("pages_data", answer=table({"n": "x", "Value": "3"}))
            found = prepare_donor.prepare_donor(host.machine(programs), [str(point)], quiet)
        assert (found["gtid_set"], found["lag_seconds"], found["buffer_pool_pages"]) == (
            f"{A}:1-9,{B}:1",
            2,
            2,
        )
        assert found["buffer_pool_held_pages"] == 3, "more than are listed"
        assert 0 < found["data_bytes"] < 300 * MIB
        assert programs.said("sync -f", str(point))
        [layout] = found["layout"]
        assert (layout["kind"], layout["filesystem"], layout["size_bytes"]) == ("single", "xfs", 300 * MIB)
        assert [one["volume_id"] for one in layout["volumes"]] == [volume.volume_id]
        assert layout["volumes"][0]["label"] == layout["uuid"] != ""
        assert (found["server"]["datadir"], found["server"]["owner of the data"]) == (str(point), [0, 0])
        assert found["server"]["server version"] is None, "which this script does not say"

    @pytest.mark.real
    def test_a_data_directory_behind_a_link_is_written_out_where_it_lies(self, host: Host) -> None:
        with host.mounted(host.volume(300 * MIB, "xfs")) as point:
            (point / "mysql").mkdir()
            link = host.root / "mysql"
            link.symlink_to(point / "mysql")
            assert prepare_donor.mount_roots([str(link), str(point), "/"]) == [str(point)]
