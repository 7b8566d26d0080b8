"""What a donor must be, and what it reports."""

from __future__ import annotations

import pytest
from host_bench import MIB, Host, ScriptedProcesses, json_row, pool_settings, status, table, variables
from peaker_host.donor import prepare_donor
from peaker_host.machine.errors import DonorIsSource, DonorNotReplicating
from peaker_host.machine.settings import Machine

A, B = "c292c1fa-e550-11f1-9eb5-c2cd5b392683", "3d664b29-e551-11f1-b745-6ef0865e2f1c"


def quiet(_text: str) -> None:
    pass


class TestPrepareDonor:
    def test_a_server_without_a_channel_is_a_source(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer="")
        with pytest.raises(DonorIsSource):
            prepare_donor.prepare_donor(Machine.of(host.settings, programs), ["/var/lib/mysql"], quiet)
        assert not programs.said("SET GLOBAL")

    def test_a_writable_replica_is_refused_as_a_source(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status()).on(
            "super_read_only", answer=json_row(read_only=0)
        )
        with pytest.raises(DonorIsSource, match="accepts writes"):
            prepare_donor.prepare_donor(Machine.of(host.settings, programs), ["/var/lib/mysql"], quiet)

    def test_a_stopped_replica_is_refused(self, host: Host, programs: ScriptedProcesses) -> None:
        programs.on("SHOW REPLICA STATUS", answer=status(Replica_SQL_Running="No", Last_SQL_Error="dup"))
        programs.on("super_read_only", answer=json_row(read_only=1))
        with pytest.raises(DonorNotReplicating, match="dup"):
            prepare_donor.prepare_donor(Machine.of(host.settings, programs), ["/var/lib/mysql"], quiet)

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
            programs.on("information_schema.FILES").on("keyring_component_status")
            programs.on("super_read_only", answer=json_row(read_only=1))
            programs.on("dump_status", answer=table({"n": "x", "Value": "completed"}))
            programs.on("SET GLOBAL").on("sync -f")
            programs.on("dump_now", answer=dump)
            programs.on("pages_data", answer=table({"n": "x", "Value": "3"}))
            found = prepare_donor.prepare_donor(Machine.of(host.settings, programs), [str(point)], quiet)
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
