"""A clone on real servers and block devices: whole, known by the donor's uuid, begun anew after a kill, refused by
name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from host_bench import RUN_ID
from peaker_host.blocks.live_blocks import kept_live_blocks
from peaker_host.machine.devices import read_superblock
from peaker_host.machine.files import read_text

from tests.clone.conftest import DATA_UUID, LOGIN, PASSWORD, ROWS, Replica, free_port
from tests.clone.servers import running

pytestmark = pytest.mark.real
Capture = pytest.CaptureFixture[str]
USER = f"{LOGIN['user']}@'%'"


def clone(replica: Replica, capsys: Capture) -> dict[str, Any]:
    return replica.host.call(capsys, *replica.arguments("clone_database"))


def left_at_work(replica: Replica) -> list[str]:
    """Processes that know the replica's folder."""
    found = subprocess.run(
        ["pgrep", "-f", str(replica.host.root)], capture_output=True, text=True, check=False
    )
    return found.stdout.split()


def begun(replica: Replica, until: str) -> subprocess.Popen[bytes]:
    """An engine in a process of its own, slowed, that has made this of its folder on the volume."""
    engine = subprocess.Popen(
        replica.argv("clone_database", rate_mib_per_s=1),
        env=replica.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    path, deadline = replica.datadir / ".peaker-clone" / until, time.monotonic() + 300
    while not path.exists() and engine.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists(), read_text(replica.host.settings.run_path(RUN_ID, "prewarm.json"))
    return engine


def test_the_copy_is_the_donor_s_database_with_its_position_on_the_volumes_of_the_run(
    cloned: Replica,
) -> None:
    with cloned.mounted():
        assert not (cloned.datadir / ".peaker-clone").exists()
        assert (cloned.logs / "redo" / "#innodb_redo").is_dir()
        assert (cloned.datadir / "ib_buffer_pool").exists(), "the donor's hot pages come along"
        with running(cloned.programs, cloned.datadir, cloned.host.root / "server", free_port()) as server:
            assert server.ask("SELECT COUNT(*), MAX(LENGTH(body)) FROM shop.orders") == [f"{ROWS}\t3600"]
            own, donors = server.ask("SELECT @@server_uuid"), cloned.donor.ask("SELECT @@server_uuid")
            assert own != donors
            executed = server.ask("SELECT @@gtid_executed")[0]
            assert executed.startswith(donors[0])
            assert cloned.donor.ask(f"SELECT GTID_SUBSET('{executed}', @@gtid_executed)") == ["1"]


def test_what_was_copied_is_reported_as_of_a_prewarm(cloned: Replica, capsys: Capture) -> None:
    said = cloned.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)
    assert (said["state"], said["method"], said["eta_seconds"]) == ("done", "clone", 0.0)
    assert said["bytes_read"] > ROWS * 900
    assert said["samples"]


def test_storage_is_assembled_by_the_donor_s_uuid_and_proven_by_what_the_copy_uses(
    cloned: Replica, capsys: Capture
) -> None:
    assert read_superblock(cloned.data.path).uuid == DATA_UUID
    answer = cloned.host.call(capsys, "assemble_storage", "--run-id", RUN_ID, "--volumes", cloned.volumes)
    assert answer["ok"], json.dumps(answer)
    live = kept_live_blocks(cloned.host.settings, RUN_ID)
    assert set(live) == {cloned.data.volume_id, cloned.log.volume_id}
    assert all(one.known and one.blocks for one in live.values())


def test_selinux_labels_what_a_new_filesystem_has_no_labels_for(cloned: Replica) -> None:
    [said] = cloned.said("restorecon")
    recursive, *places, mounted = said.split()
    assert (recursive, mounted) == ("-R", "mounted")
    assert {str(cloned.datadir), str(cloned.logs / "redo"), str(cloned.logs / "binlog")} <= set(places)


def test_an_image_s_own_server_is_stopped_before_another_place_covers_its_own(cloned: Replica) -> None:
    """It would go on to write by path, into the clone."""
    assert cloned.said("systemctl") == ["stop mysql free"]


def test_what_is_whole_is_not_made_anew(cloned: Replica, capsys: Capture) -> None:
    before = kept_live_blocks(cloned.host.settings, RUN_ID)
    assert clone(cloned, capsys)["state"] == "done"
    assert len(cloned.said("systemctl")) == 1
    assert kept_live_blocks(cloned.host.settings, RUN_ID) == before


def test_a_second_start_finds_what_the_first_has_made(cloned: Replica, capsys: Capture) -> None:
    assert cloned.host.call(capsys, *cloned.arguments("start_clone"))["already_done"]


@pytest.mark.parametrize("until", ["server", "copy"])
def test_an_engine_that_was_killed_leaves_what_it_has_begun_and_the_next_begins_anew(
    replica: Replica, capsys: Capture, until: str
) -> None:
    """A server that was being made, or one with half a copy."""
    engine = begun(replica, until)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "dead"
    answer = clone(replica, capsys)
    assert answer["ok"], json.dumps(answer)
    assert (answer["state"], answer["restarts"]) == ("done", 1)
    assert left_at_work(replica) == []


def test_an_engine_that_begins_anew_waits_for_who_looks_at_what_the_last_one_left(
    replica: Replica, capsys: Capture
) -> None:
    """As a monitoring agent does that measures all filesystems; it ends when `umount` was refused for it."""
    engine = begun(replica, "server")
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    with subprocess.Popen(["sleep", "infinity"], cwd=replica.datadir) as agent:
        try:
            refused = ends_when_it_is_in_the_way(replica, agent)
            answer = clone(replica, capsys)
        finally:
            agent.kill()
    assert answer["ok"], json.dumps(answer)
    assert (answer["state"], answer["restarts"]) == ("done", 1)
    assert "target is busy" in refused.read_text()


def ends_when_it_is_in_the_way(replica: Replica, agent: subprocess.Popen[bytes]) -> Path:
    """The replica's own `umount` does what the system's does; what that was refused is in the file."""
    refused, script = replica.host.root / "refused", replica.host.root / "bin" / "umount"
    script.write_text(
        f'#!/bin/sh\n{shutil.which("umount")} "$@" 2>{refused}.now && exit\nstatus=$?\n'
        f"cat {refused}.now | tee -a {refused} >&2\nkill {agent.pid} 2>/dev/null\nexit $status\n"
    )
    script.chmod(0o755)
    return refused


def test_an_engine_that_is_told_to_end_ends_its_server_and_says_that_it_is_dead(
    replica: Replica, capsys: Capture
) -> None:
    engine = begun(replica, "copy")
    engine.terminate()
    assert engine.wait(300) == 0
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "dead"
    assert not os.path.ismount(replica.datadir)
    assert left_at_work(replica) == []


def test_a_volume_that_holds_something_is_not_written_to(replica: Replica, capsys: Capture) -> None:
    subprocess.run(["mkfs.ext4", "-q", replica.data.path], check=True)
    before = read_superblock(replica.data.path)
    assert clone(replica, capsys)["error"] == "DeviceNotEmpty"
    assert read_superblock(replica.data.path) == before
    assert replica.said("systemctl") == [], "a server may be at work on it"


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
        answer = clone(replica, capsys)
    finally:
        replica.donor.ask(taken_back)
    assert answer["error"] == "CloneRefused"
    assert said in answer["message"]
    assert "secret" not in answer["message"]
    assert replica.host.call(capsys, "report_prewarm", "--run-id", RUN_ID)["state"] == "failed"
    assert not os.path.ismount(replica.datadir)


def test_without_a_login_nothing_is_written(replica: Replica, capsys: Capture) -> None:
    replica.host.configure(clone_credentials_file=str(replica.host.root / "nowhere.json"))
    answer = clone(replica, capsys)
    assert answer["error"] == "ReplicationNotConfigured"
    assert "BACKUP_ADMIN" in answer["message"]
