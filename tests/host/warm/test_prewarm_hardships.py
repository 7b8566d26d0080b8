"""What may befall an engine in hours of work: signals, stalls, full disks, looks from outside, odd layouts."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from host_bench import MIB, RUN_ID, Host, Volume, assembled
from peaker_host.machine.errors import StateDirectoryFull
from peaker_host.warm import progress
from peaker_host.warm.journal import Journal
from peaker_host.warm.progress import MeanRate, eta_seconds, expected_mib_per_s
from test_prewarm import HOT_TENTH, assemble, engine, filled, tier, tier_of, with_database

pytestmark = pytest.mark.real


class TestEstimate:
    def test_a_stall_of_seconds_does_not_make_hours_of_minutes(self) -> None:
        rate = MeanRate(0.0)
        read = 0
        for tick in range(1, 241):
            at = tick * 0.5
            stalled = 118 <= at <= 120
            read += 0 if stalled else 60 * MIB
            seen = rate.observe(at, read)
        whole = eta_seconds([(2 * 60 * 120 * 52, 120.0)], "running")
        assert whole == 52 * 60
        late = eta_seconds([(2 * 60 * 120 * 52, seen)], "running")
        assert late is not None
        assert late < 1.06 * 52 * 60

    def test_a_small_volume_beside_it_does_not_shorten_the_time_of_a_large_one(self) -> None:
        """Data and log volume are each fetched at 2.4 MiB/s; the log is done after a minute."""
        data, log = (1_200, 2.4), (288, 2.4)
        assert eta_seconds([data, log], "running") == eta_seconds([data], "running") == 250.0
        assert eta_seconds([data, (0, 0.0)], "running") == 250.0

    def test_a_volume_without_a_rate_yet_leaves_the_time_unknown(self) -> None:
        assert eta_seconds([(1_200, 2.4), (288, 0.0)], "running") is None
        assert eta_seconds([(1_200, 0.0)], "done") == 0.0

    def test_before_the_first_read_the_cold_look_lets_a_rate_be_expected(self) -> None:
        """Eight reads of half a MiB at once; of no volume more than a gp3 gives without paying for it."""
        assert expected_mib_per_s(8, 40.0) == 100.0
        assert expected_mib_per_s(8, 2.0, 125.0) == 125.0
        assert expected_mib_per_s(8, None) == expected_mib_per_s(8, 0.0) == 0.0

    def test_a_rate_that_has_changed_is_believed_after_a_minute(self) -> None:
        rate = MeanRate(0.0)
        assert rate.observe(0.0, 0) == 0.0
        for tick in range(1, 400):
            read = min(tick, 200) * 100 * MIB + max(0, tick - 200) * 10 * MIB
            seen = rate.observe(float(tick), read)
        assert seen == pytest.approx(10.0, rel=0.02)


class TestLock:
    def test_a_look_does_not_keep_an_engine_from_starting(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the middle of a look, with its file open and asked about."""
        real = fcntl.fcntl
        taken: list[bool] = []

        def during(descriptor: Any, request: int, argument: Any = 0) -> Any:
            answer = real(descriptor, request, argument)
            if request == fcntl.F_OFD_GETLK and not taken:
                taken.append(True)
                progress.take_lock(host.settings, RUN_ID).close()
            return answer

        monkeypatch.setattr("peaker_host.warm.progress.fcntl.fcntl", during)
        monkeypatch.setattr(
            "peaker_host.warm.progress.fcntl.flock", lambda *_: pytest.fail("a look takes a lock")
        )
        assert progress.holder(host.settings, RUN_ID) is None
        assert taken


class TestEnding:
    """An engine says that it is done, and holds its lock for as long as its process takes to end."""

    ASKED = ("start_prewarm",)
    REMAINDER = ("--remainder-rate-mib-per-s", "8")

    @pytest.mark.parametrize("asked", [ASKED, (*ASKED, *REMAINDER)], ids=["used", "remainder"])
    def test_what_it_has_read_is_done(self, host: Host, asked: tuple[str, ...]) -> None:
        self.published(host, with_remainder=True)
        with progress.take_lock(host.settings, RUN_ID):
            assert host.call(*asked)["already_done"]

    def test_what_is_asked_for_beyond_it_is_started_when_it_has_ended(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.published(host, with_remainder=False)
        lock = progress.take_lock(host.settings, RUN_ID)
        monkeypatch.setattr("peaker_host.warm.control.time.sleep", lambda _: lock.close())
        answer = host.call(*self.ASKED, *self.REMAINDER)
        assert answer["error"] == "StorageNotAssembled", "it went on to what a start needs next"

    @staticmethod
    def published(host: Host, **more: Any) -> None:
        path = Path(host.settings.run_path(RUN_ID, "prewarm.json"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"state": "done", "pid": os.getpid(), **more}))


def test_a_filesystem_larger_than_its_device_is_refused(host: Host) -> None:
    for kind in ("xfs", "ext4"):
        volume = host.volume(400 * MIB, kind)
        os.truncate(volume.image, 320 * MIB)
        subprocess.run(["losetup", "--set-capacity", volume.path], check=True)
        result = assemble(host, volume, filesystem=kind)
        assert (result["error"], "419430400" in result["message"]) == ("FilesystemTruncated", True), result


class TestFullDisk:
    @pytest.fixture
    def full(self, host: Host) -> Any:
        """A state directory on a filesystem of its own, and what is left of it."""
        small = Path(host.settings.state_dir)
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], check=True)
        yield small
        subprocess.run(["umount", "-l", str(small)], check=True)

    def test_a_journal_without_space_is_refused_by_name(self, full: Path) -> None:
        with pytest.raises(StateDirectoryFull, match="free some space"):
            Journal(str(full / "j"), "vol-1", "u", 8 * 200_000)

    def test_progress_that_cannot_be_written_ends_nothing(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assembled(host, filled(host))

        def full_disk(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("peaker_host.warm.record.write_json", full_disk)
        result = host.call("prewarm")
        assert result["blocks_done"] == result["blocks_total"] > 100


def tablespace(space: int, data: int) -> bytes:
    head = bytearray(16384)
    head[34:38] = space.to_bytes(4, "big")
    return bytes(head) + os.urandom(data)


class TestLayouts:
    @pytest.mark.parametrize(("kind", "below"), [("xfs", "data"), ("ext4", "var/lib/mysql")])
    def test_a_data_directory_below_the_mount_root_keeps_its_hot_tier(
        self, host: Host, kind: str, below: str
    ) -> None:
        volume = host.volume(400 * MIB, kind)
        with host.mounted(volume) as point:
            (point / below / "orders").mkdir(parents=True)
            (point / below / "orders" / "t.ibd").write_bytes(tablespace(9, 30 * MIB))
            (point / below / "ibdata1").write_bytes(tablespace(0, MIB))
            (point / below / "ib_buffer_pool").write_text(HOT_TENTH)
        assert assemble(host, volume, filesystem=kind)["ok"]
        result = host.call("prewarm")
        assert 12 <= tier(result, "hot")["blocks"] <= 16
        assert tier(result, "recovery")["blocks"] >= 1
        assert result["hot_unknown"] == ""

    def test_hot_pages_on_a_second_volume_come_first_there(self, host: Host) -> None:
        data = with_database(host, "".join(f"12,{page}\n" for page in range(200, 600)))
        second = host.volume(400 * MIB, "xfs")
        with host.mounted(second) as point:
            (point / "archive").mkdir()
            (point / "archive" / "old.ibd").write_bytes(tablespace(12, 30 * MIB))
        assert assemble(host, data, second)["ok"]
        result = host.call("prewarm")
        hot = [tier_of(volume, "hot")["blocks"] for volume in result["volumes"]]
        assert hot[0] == 0
        assert 12 <= hot[1] <= 16
        proof = host.call("verify_storage", "--scope", "hot", "--load-seconds", "0")
        assert proof["volumes"][1]["blocks_used"] <= 17


class TestRemainder:
    def given(self, host: Host) -> tuple[Volume, Path]:
        """A volume whose snapshot holds blocks that the filesystem does not use."""
        volume = assembled(host, filled(host))
        host.give_block_list(volume.volume_id, "0-399")
        place = host.root / "place0"
        place.mkdir()
        return volume, place

    def test_it_waits_for_the_database_and_is_read_behind_it(self, host: Host) -> None:
        volume, place = self.given(host)
        child = engine(host, "--remainder-rate-mib-per-s", "200")
        progress = Path(host.settings.run_path(RUN_ID, "prewarm.json"))
        try:
            report = self.awaited(progress, lambda said: said.get("used_warm_seconds") is not None)
            assert (report["state"], report["eta_seconds"]) == ("running", 0.0)
            assert tier(report, "remainder")["done"] == 0
            assert tier(report, "remainder")["blocks"] > 100
            proof = host.prove("--load-seconds", "0")
            assert proof["verdict"] == "warm"
            subprocess.run(["mount", volume.path, str(place)], check=True)
            try:
                done = self.awaited(progress, lambda said: said["state"] == "done")
            finally:
                child.wait(60)
                subprocess.run(["umount", str(place)], check=True)
            assert tier(done, "remainder")["done"] == tier(done, "remainder")["blocks"]
            assert done["blocks_done"] == done["blocks_total"]
        finally:
            child.kill()
            child.communicate()

    def awaited(self, path: Path, seen: Any) -> dict[str, Any]:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            said: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"state": "none"}
            if seen(said):
                return said
            time.sleep(0.05)
        raise AssertionError(said)
