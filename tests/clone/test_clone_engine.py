"""A clone on real servers and block devices: whole, known by the donor's uuid, begun anew after a kill, refused by
name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from peaker_host.blocks.live_blocks import kept_live_blocks
from peaker_host.machine.devices import read_superblock

from host_bench import RUN_ID
from tests.clone.conftest import DATA_UUID, LOGIN, PASSWORD, ROWS, Replica, free_port
from tests.clone.servers import running

pytestmark = pytest.mark.real
Capture = pytest.CaptureFixture[str]
USER = f"{LOGIN['user']}@'%'"
HOST_PACKAGES = Path(__file__).resolve().parents[2] / "host"


def cloned(replica: Replica, capsys: Capture) -> dict[str, Any]:
    return replica.host.call(capsys, *replica.arguments("clone_database"))


def well(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["ok"], json.dumps(answer)
    return answer


def copying(replica: Replica) -> subprocess.Popen[bytes]:
    """An engine in a process of its own, slowed, that has begun to copy."""
    argv = [sys.executable, "-m", "peaker_host", "--settings", str(replica.host.settings_path)]
    engine = subprocess.Popen(
        [*argv, *replica.arguments("clone_database", rate_mib_per_s=1)],
        env={**os.environ, "PYTHONPATH": str(HOST_PACKAGES)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    copy, deadline = replica.datadir / ".peaker-clone" / "copy", time.monotonic() + 120
    while not copy.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return engine


def test_the_copy_is_the_donor_s_database_with_its_position_on_the_volumes_of_the_run(
    replica: Replica, capsys: Capture
) -> None:
    said = well(cloned(replica, capsys))
    assert (said["state"], said["method"], said["eta_seconds"]) == ("done", "clone", 0.0)
    assert said["bytes_read"] > ROWS * 900
    executed = replica.donor.ask("SELECT @@gtid_executed")
    with replica.mounted():
        assert not (replica.datadir / ".peaker-clone").exists()
        assert (replica.logs / "redo" / "#innodb_redo").is_dir()
        assert (replica.datadir / "ib_buffer_pool").exists(), "the donor's hot pages come along"
        with running(replica.programs, replica.datadir, replica.host.root / "server", free_port()) as server:
            assert server.ask("SELECT @@gtid_executed") == executed
            assert server.ask("SELECT COUNT(*), MAX(LENGTH(body)) FROM shop.orders") == [f"{ROWS}\t3600"]
            assert server.ask("SELECT @@server_uuid") != replica.donor.ask("SELECT @@server_uuid")


def test_storage_is_assembled_by_the_donor_s_uuid_and_proven_by_what_the_copy_uses(
    replica: Replica, capsys: Capture
) -> None:
    well(cloned(replica, capsys))
    assert read_superblock(replica.data.path).uuid == DATA_UUID
    given = ["--run-id", RUN_ID, "--volumes", replica.volumes]
    well(replica.host.call(capsys, "assemble_storage", *given))
    live = kept_live_blocks(replica.host.settings, RUN_ID)
    assert set(live) == {replica.data.volume_id, replica.log.volume_id}
    assert all(one.known and one.blocks for one in live.values())


def test_a_second_start_finds_what_the_first_has_made(replica: Replica, capsys: Capture) -> None:
    well(cloned(replica, capsys))
    assert replica.host.call(capsys, *replica.arguments("start_clone"))["already_done"]


def test_an_engine_that_was_killed_leaves_a_server_and_half_a_copy_and_the_next_begins_anew(
    replica: Replica, capsys: Capture
) -> None:
    engine = copying(replica)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    pid = int((replica.datadir / ".peaker-clone" / "server.pid").read_text())
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "dead"
    assert well(cloned(replica, capsys))["state"] == "done"
    assert not Path(f"/proc/{pid}").exists()


def test_an_engine_that_is_told_to_end_ends_its_server_and_says_that_it_is_dead(
    replica: Replica, capsys: Capture
) -> None:
    engine = copying(replica)
    engine.terminate()
    assert engine.wait(60) == 0
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "dead"
    assert not os.path.ismount(replica.datadir)


def test_a_volume_that_holds_something_is_not_written_to(replica: Replica, capsys: Capture) -> None:
    subprocess.run(["mkfs.ext4", "-q", replica.data.path], check=True)
    before = read_superblock(replica.data.path)
    assert cloned(replica, capsys)["error"] == "DeviceNotEmpty"
    assert read_superblock(replica.data.path) == before


@pytest.mark.parametrize(
    ("done_to_donor", "taken_back", "said"),
    [
        ("UNINSTALL PLUGIN clone", "INSTALL PLUGIN clone SONAME 'mysql_clone.so'", "Plugin"),
        (f"REVOKE BACKUP_ADMIN ON *.* FROM {USER}", f"GRANT BACKUP_ADMIN ON *.* TO {USER}", "BACKUP_ADMIN"),
        (f"ALTER USER {USER} IDENTIFIED BY 'other'", f"ALTER USER {USER} IDENTIFIED BY {PASSWORD}", "denied"),
    ],
)
def test_what_the_donor_refuses_is_told_without_the_password_and_nothing_stays_mounted(
    replica: Replica, capsys: Capture, done_to_donor: str, taken_back: str, said: str
) -> None:
    replica.donor.ask(done_to_donor)
    try:
        answer = cloned(replica, capsys)
    finally:
        replica.donor.ask(taken_back)
    assert answer["error"] == "CloneRefused"
    assert said in answer["message"]
    assert "secret" not in answer["message"]
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "failed"
    assert not os.path.ismount(replica.datadir)


def test_without_a_login_nothing_is_written(replica: Replica, capsys: Capture) -> None:
    replica.host.configure(clone_credentials_file=str(replica.host.root / "nowhere.json"))
    answer = cloned(replica, capsys)
    assert answer["error"] == "ReplicationNotConfigured"
    assert "BACKUP_ADMIN" in answer["message"]
