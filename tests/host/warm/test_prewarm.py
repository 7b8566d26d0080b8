"""The engine on real block devices: orders, resume, refusals, cancel."""

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
from host_bench import (
    BLOCK,
    MIB,
    RUN_ID,
    Host,
    Volume,
    assemble,
    assembled,
    filled,
    journal_ranges,
    sectors_read,
)
from peaker_host.blocks import block_list
from peaker_host.blocks.ranges import blocks_of_bytes, total
from peaker_host.machine.errors import CommandFailed
from peaker_host.warm.control import KILLED, _fetch_block_list

pytestmark = pytest.mark.real
HOST_PACKAGES = Path(__file__).resolve().parents[3] / "host"


def engine(host: Host, *arguments: str) -> subprocess.Popen[str]:
    """The engine as a process of its own."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "peaker_host", *host.argv("prewarm", *arguments)),
        ],
        cwd=HOST_PACKAGES,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_every_used_block_is_read_once_and_little_else(host: Host, kind: str) -> None:
    volume = filled(host, kind)
    assert assemble(host, volume, filesystem=kind)["ok"]
    used = blocks_of_bytes(host.used_ranges(volume, kind))
    before = sectors_read(volume)
    result = host.call("prewarm")
    assert result["state"] == "done"
    assert result["throttled"] == "", "no database is at work"
    assert result["blocks_done"] == result["blocks_total"] == total(used)
    assert journal_ranges(host, volume) == used
    device_bytes = (sectors_read(volume) - before) * 512
    assert total(used) * BLOCK * 0.99 <= device_bytes <= total(used) * BLOCK * 1.05 + 4 * MIB


def test_killed_again_and_again_it_resumes_and_reads_next_to_nothing_twice(host: Host) -> None:
    volume = assembled(host, filled(host, data=120 * MIB))
    before = sectors_read(volume)
    endings = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)
    for ending in endings:
        # So slow that no engine comes to its end, however late the machine lets it be killed.
        child = engine(host, "--background-rate-mib-per-s", "10")
        try:
            await_reading(host, child)
        finally:
            child.send_signal(ending)
            child.communicate(timeout=60)
    stopped = host.call("report_prewarm")
    assert (stopped["state"], stopped["error"]) == ("dead", "Interrupted"), "the last one ended in order"
    kills = len(endings)
    result = host.call("prewarm")
    assert result["restarts"] == kills
    assert result["blocks_done"] == result["blocks_total"] == total(journal_ranges(host, volume)) > 240
    read_twice = (sectors_read(volume) - before) * 512 - result["blocks_total"] * BLOCK
    assert read_twice <= kills * 10 * MIB, "only reads under way may be repeated"


def await_reading(host: Host, child: subprocess.Popen[str]) -> None:
    """Until this very engine's progress shows blocks that it has read itself."""
    path = Path(host.settings.run_path(RUN_ID, "prewarm.json"))
    deadline = time.monotonic() + 60
    first_bytes = None
    while True:
        assert child.poll() is None, "the engine ended by itself"
        progress = json.loads(path.read_text()) if path.exists() else {}
        if progress.get("pid") == child.pid:
            first_bytes = progress["bytes_read"] if first_bytes is None else first_bytes
            if progress["bytes_read"] > first_bytes:
                return
        assert time.monotonic() < deadline, progress
        time.sleep(0.05)


def test_it_starts_detached_reports_and_says_so_when_it_runs_or_is_done(host: Host) -> None:
    assembled(host, filled(host))
    assert host.call("report_prewarm")["error"] == "PrewarmNotStarted"
    # So slow that it is at work still when all has been asked of it.
    arguments = ("--background-rate-mib-per-s", "40")
    os.environ["PYTHONPATH"] = str(HOST_PACKAGES)
    try:
        first = host.call("start_prewarm", *arguments)
        again = host.call("start_prewarm", *arguments)
        report = host.call("report_prewarm")
        assert (again["pid"], again["already_running"]) == (first["pid"], True)
        assert first["block_list_missing"] == "none was given"
        assert os.getsid(first["pid"]) == first["pid"], "a session of its own"
        assert report["state"] == "running"
        other = host.call("start_prewarm", run_id="another-run")
        assert other["error"] == "PrewarmAlreadyRunning"
        while report["state"] == "running":
            time.sleep(0.3)
            report = host.call("report_prewarm")
        assert (report["state"], report["blocks_done"]) == ("done", report["blocks_total"])
        assert host.call("start_prewarm", *arguments)["already_done"]
    finally:
        del os.environ["PYTHONPATH"]
    lines = Path(host.settings.run_path(RUN_ID, "prewarm.jsonl")).read_text().splitlines()
    assert [json.loads(line)["blocks_total"] for line in lines] == [report["blocks_total"]] * len(lines)
    assert lines


def test_a_block_list_that_cannot_be_had_is_said_and_does_without(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_list, "_PAUSES_SECONDS", (0.0,))
    gone = "http://127.0.0.1:9/list?signature=secret"
    assert "could not be fetched" in _fetch_block_list(host.settings, RUN_ID, gone)
    assert block_list.of_run(host.settings, RUN_ID) == {}
    given = tmp_path / "blocks.json"
    given.write_text('{"block_bytes": 524288, "volumes": {"data": "0-7"}}')
    assert _fetch_block_list(host.settings, RUN_ID, given.as_uri()) == ""
    assert _fetch_block_list(host.settings, RUN_ID, gone) == "", "an earlier list stays"
    assert block_list.of_run(host.settings, RUN_ID) == {"data": [(0, 8)]}


def test_the_last_words_of_an_engine_that_died_are_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this engine, not of one before it."""
    assembled(host, filled(host))
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    slow = ("start_prewarm", "--background-rate-mib-per-s", "20")
    for ending, crashed in ((signal.SIGSEGV, True), (signal.SIGKILL, False)):
        started = host.call(*slow)
        assert not started["already_running"], started
        os.kill(started["pid"], ending)
        os.waitpid(started["pid"], 0)
        report = host.call("report_prewarm")
        assert report["state"] == "dead"
        assert ("peaker_host" in report["message"]) is crashed, "the lines of the crash"
        assert KILLED in report["message"]
        assert len(report["message"]) <= 620
    assert "Segmentation fault" in Path(host.settings.run_path(RUN_ID, "prewarm.log")).read_text()


def test_ranges_that_cannot_be_read_fail_the_run_by_name(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = assembled(host, filled(host))
    bad, _ = blocks_of_bytes(host.used_ranges(volume, "xfs"))[-1]
    real = os.preadv

    def broken(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset <= bad * BLOCK < offset + len(buffers[0]):
            raise OSError(5, "Input/output error")
        return real(descriptor, buffers, offset)

    monkeypatch.setattr("peaker_host.warm.reader_pool.os.preadv", broken)
    monkeypatch.setattr("peaker_host.warm.reader_pool._RETRY_SECONDS", 0.01)
    result = host.call("prewarm")
    assert result["error"] == "ReadErrors"
    assert f"blocks {bad}+1 (Input/output error)" in result["message"]
    report = host.call("report_prewarm")
    assert (report["state"], report["volumes"][0]["failed_ranges"]) == (
        "failed",
        [[bad, 1, "Input/output error"]],
    )
    assert report["blocks_done"] == report["blocks_total"] - 1


def with_database(host: Host, pages: str, data: int = 60 * MIB) -> Volume:
    """A volume with a tablespace and a list of its hot pages."""
    volume = host.volume(400 * MIB, "xfs")
    head = bytearray(16384)
    head[34:38] = (9).to_bytes(4, "big")
    with host.mounted(volume) as point:
        (point / "t.ibd").write_bytes(bytes(head) + os.urandom(data))
        (point / "ib_buffer_pool").write_text(pages)
    return volume


HOT_TENTH = "".join(f"9,{page}\n" for page in range(1000, 1400))


def tier(result: dict[str, Any], name: str) -> dict[str, Any]:
    return tier_of(result["volumes"][0], name)


def tier_of(volume: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in volume["tiers"] if row["name"] == name)


def test_without_a_page_list_nothing_is_called_hot(host: Host) -> None:
    assembled(host, with_database(host, ""))
    result = host.call("prewarm")
    assert (result["state"], result["hot_warm_seconds"]) == ("done", None)
    assert "ib_buffer_pool" in result["hot_unknown"]


def test_after_the_hot_set_the_rest_follows_at_the_background_rate(host: Host) -> None:
    assembled(host, with_database(host, HOT_TENTH))
    result = host.call("prewarm", "--background-rate-mib-per-s", "100")
    rest_mib = (result["blocks_total"] - tier(result, "hot")["blocks"]) / 2
    assert tier(result, "hot")["blocks"] < tier(result, "used")["blocks"]
    assert result["hot_warm_seconds"] < result["elapsed_seconds"]
    assert result["elapsed_seconds"] >= rest_mib / 100 * 0.75


def test_files_that_cannot_be_found_cost_the_order_not_the_run(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembled(host, with_database(host, HOT_TENTH))

    def broken(*_: Any) -> None:
        raise CommandFailed("xfs_db ended with exit code 1: Metadata corruption detected")

    monkeypatch.setattr("peaker_host.warm.plan.find_database", broken)
    result = host.call("prewarm")
    assert result["blocks_done"] == result["blocks_total"] > 100
    assert "Metadata corruption" in result["volumes"][0]["map_unreadable"]
