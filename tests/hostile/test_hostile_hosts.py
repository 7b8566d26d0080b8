"""What others wrote on a replica, story by story."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import pytest
from peaker_host import cli
from peaker_host.blocks import block_list
from peaker_host.blocks.filesystem_maps import ExtMap
from peaker_host.blocks.log_replay import MountBlocks, mount_blocks
from peaker_host.database.mysql_client import option_line
from peaker_host.database.page_load import restore_dump_settings
from peaker_host.database.replica_status import parse_gtid_set, status_from
from peaker_host.health import policy
from peaker_host.health.policy import read_health, standing_from
from peaker_host.machine.devices import read_superblock
from peaker_host.machine.errors import (
    BlockListUnreadable,
    InvalidArgument,
    NoFilesystem,
    UnclearAnswer,
    UnreadableFile,
)
from peaker_host.machine.manifest import parse_volumes
from peaker_host.machine.settings import Processes

from tests.hostile.of_hosts import RUN, SERVER, STATUS, VOLUMES, _ext4
from tests.hostile.places import answering, file_with, host_settings, saying, server


@pytest.mark.parametrize("word", [f"{RUN}\n", "../../etc", "a/b", "a b", "$(id)"])
def test_a_run_id_is_a_name_and_nothing_else(word: str) -> None:
    with pytest.raises(InvalidArgument, match="run id"):
        cli.parser().parse_args(["stop_database", "--run-id", word])


def test_a_source_s_name_ends_with_the_name() -> None:
    """A line break behind it would begin another line of the option file that it is written to."""
    with pytest.raises(InvalidArgument, match="host name"):
        cli.parser().parse_args(["start_replication", "--run-id", RUN, "--source-host", "10.0.0.1\n"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("volume_id", "vol-0a1b2c3d4e5f60718\n"), ("mount_point", "/var/../etc"), ("mount_point", "/var\nx")],
)
def test_a_volume_is_named_and_mounted_plainly(field: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"volumes\[0\]\.{field}"):
        parse_volumes(json.dumps([{**VOLUMES[0], field: value}]))


def test_a_note_that_names_other_variables_is_no_statement() -> None:
    """The names of the note stand in statements of the administrator, where nothing can quote them."""
    programs = answering(SERVER)
    name = "read_only = OFF; SET GLOBAL super_read_only"
    file_with(json.dumps({"set": {name: 0}, "was": {name: 0}}), "state/donor-settings.json")
    with pytest.raises(UnreadableFile, match="other variables"):
        restore_dump_settings(server(SERVER), host_settings())
    assert programs.told == []


@pytest.mark.parametrize("password", ["a\nplugin-dir=/tmp", "a\rb", 'a"b\\', "x y#z"])
def test_a_password_stays_one_option(password: str) -> None:
    line = option_line("password", password)
    assert len(line.splitlines()) == 1
    assert line.startswith('password="')
    assert line.endswith('"')


@pytest.mark.parametrize("name", ['x" dump <12> /etc/cron.d/x', "x;y", "a\\b", "a\x1bb"])
def test_a_directory_named_like_a_command_is_not_asked_for(name: str) -> None:
    """debugfs can write files of this host; whoever may make directories on the volume chooses their names."""
    programs = saying(f'debugfs: ls -p "/"\n/12/040755/0/0/{name}//\n/13/040755/0/0/mysql//\n')
    reader = ExtMap(file_with(_ext4(), "ext4"), programs)
    (found,) = reader.listings([""])
    assert [entry.path for entry in found.directories] == ["mysql"]
    assert reader.unreadable == 1


def test_a_carriage_return_in_a_value_begins_no_row() -> None:
    program = r"import sys; sys.stdout.write('a\tb\n1\tx\ry\n')"
    said = Processes().run([sys.executable, "-c", program]).stdout
    assert said == "a\tb\n1\tx\ry\n"


def test_a_peer_that_speaks_slowly_takes_no_longer_than_it_may() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        client, _ = listener.accept()
        with client:
            while not stop.wait(0.02):
                try:
                    client.sendall(b"H")
                except OSError:
                    return

    threading.Thread(target=drip, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(OSError, match=r"."):
        read_health("127.0.0.1", listener.getsockname()[1], 0.2)
    assert time.monotonic() - began < 30
    stop.set()
    listener.close()


@pytest.mark.parametrize("staleness", [10**400, float("nan"), float("inf"), -1, True])
def test_a_peer_whose_lag_is_no_lag_is_out(staleness: float) -> None:
    assert (
        standing_from("i-1", {"state": "bad", "only_lag": True, "staleness_seconds": staleness}).state
        == "out"
    )


@pytest.mark.parametrize("lag", ["-5", "²", "9" * 40, "0x1"])
def test_a_lag_that_is_no_whole_number_is_not_good(lag: str) -> None:
    with pytest.raises(UnclearAnswer, match="Seconds_Behind_Source"):
        status_from([{**STATUS, "Seconds_Behind_Source": lag}], "mysql")


@pytest.mark.parametrize("text", ["uuid::1", "uuid:1-²", "uuid:5-1", "uuid:1-99999999999999999999999"])
def test_a_gtid_set_is_whole_or_refused(text: str) -> None:
    with pytest.raises(UnclearAnswer, match="a GTID set"):
        parse_gtid_set(text)


@pytest.mark.parametrize("runs", ["²", "1-9999999999999", [[0, 10**15]], "0-" + "9" * 5000])
def test_a_block_list_beyond_any_volume_is_refused(runs: object) -> None:
    path = file_with(json.dumps({"volumes": {"data": runs}}), "blocks.json")
    with pytest.raises(BlockListUnreadable, match=r"volumes\.data"):
        block_list.load(path)


def test_a_superblock_with_absurd_blocks_takes_no_memory() -> None:
    head = bytearray(_ext4())
    struct.pack_into("<I", head, 1024 + 24, 2**32 - 1)
    path = file_with(bytes(head), "absurd")
    with pytest.raises(NoFilesystem, match="damaged"):
        read_superblock(path)
    assert mount_blocks("ext4", path, 1 << 40) == MountBlocks([], [])


def test_a_damaged_health_policy_is_stored_anew() -> None:
    settings = host_settings()
    Path(settings.health_policy_file).write_text('{"lag_seconds": ', encoding="utf-8")
    with pytest.raises(UnreadableFile, match=r"health\.json cannot be read"):
        policy.load_policy(settings)
    assert policy.store_policy(settings, {"floor_replicas": 2})
    assert policy.load_policy(settings) == policy.HealthPolicy(floor_replicas=2)
