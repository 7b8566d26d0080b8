"""What iostat and fio print, and what is refused."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from host_bench import MIB, Host, ScriptedProcesses
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.devices import BlockDevice, describe_device
from peaker_host.machine.errors import BenchmarkFailed, CommandFailed
from peaker_host.machine.settings import Completed, Processes
from peaker_host.prove.load_test import (
    _run_fio,
    _write_read_list,
    nvme_counters,
    nvme_delta,
    run_load_test,
    summarise_iostat,
)


def report(*rows: dict[str, Any]) -> str:
    return json.dumps({"sysstat": {"hosts": [{"statistics": [{"disk": [row]} for row in rows]}]}})


def row(name: str = "nvme1n1", reads: float = 100.0, wait: float = 1.0) -> dict[str, Any]:
    return {
        "disk_device": name,
        "r/s": reads,
        "rkB/s": reads * 16,
        "r_await": wait,
        "rareq-sz": 16.0,
        "aqu-sz": 2.0,
        "util": 90.0,
        "w/s": 0.0,
    }


def test_await_is_the_mean_over_reads_not_over_intervals() -> None:
    summary = summarise_iostat(report(row(reads=100, wait=1.0), row(reads=300, wait=5.0)), "nvme1n1")
    assert (summary["r_await"], summary["r/s"], summary["intervals"]) == (4.0, 200.0, 2)


def test_idle_intervals_and_other_devices_do_not_count() -> None:
    summary = summarise_iostat(report(row(reads=0, wait=0), row(reads=50), row("other", 999, 99)), "nvme1n1")
    assert (summary["r_await"], summary["r/s"]) == (1.0, 50.0)


@pytest.mark.parametrize("bad", ["", "{}", report(row("other")), report(row(reads=0))])
def test_a_report_that_says_nothing_is_a_failure_not_a_zero(bad: str) -> None:
    with pytest.raises(BenchmarkFailed):
        summarise_iostat(bad, "nvme1n1")


def test_fio_s_warnings_before_its_json_are_skipped(programs: ScriptedProcesses) -> None:
    read = {
        "iops": 10.5,
        "bw": 2048,
        "total_ios": 5,
        "runtime": 900,
        "clat_ns": {"mean": 1e6, "percentile": {}},
    }
    programs.on("fio", answer="fio: note\n" + json.dumps({"jobs": [{"error": 0, "read": read}]}))
    load, took_seconds = _run_fio(programs, "log", 1)
    assert (load["mib_per_s"], took_seconds) == (2.0, 0.9)


NO_LIBAIO = CommandFailed(
    "fio ended with exit code 1: fio: engine libaio not loadable\nfio: failed to load engine"
)


class TestEngines:
    """dnf install fio, on Amazon Linux: libaio is in the package fio-engine-libaio."""

    def test_another_engine_that_keeps_a_queue_is_taken(self, programs: ScriptedProcesses) -> None:
        read = {"iops": 1.0, "bw": 1, "total_ios": 5, "runtime": 900, "clat_ns": {"mean": 1e6}}
        programs.on("fio", answer=json.dumps({"jobs": [{"error": 0, "read": read}]}))
        programs.on("--ioengine=libaio", answer=NO_LIBAIO)
        assert _run_fio(programs, "log", 1)[0]["reads"] == 5
        assert [argv[-1] for argv, _ in programs.calls] == ["--ioengine=libaio", "--ioengine=io_uring"]

    def test_without_any_the_package_is_named(self, programs: ScriptedProcesses) -> None:
        programs.on("fio", answer=NO_LIBAIO)
        with pytest.raises(BenchmarkFailed, match="install fio-engine-libaio"):
            _run_fio(programs, "log", 1)

    def test_another_failure_is_not_tried_again(self, programs: ScriptedProcesses) -> None:
        programs.on("fio", answer=CommandFailed("fio ended with exit code 1: Permission denied"))
        with pytest.raises(CommandFailed, match="Permission"):
            _run_fio(programs, "log", 1)
        assert len(programs.calls) == 1

    @pytest.mark.real
    def test_a_real_fio_is_asked_in_its_own_words(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("peaker_host.prove.load_test._ENGINES", ("libnone", "libaio"))
        volume = host.volume(64 * MIB)
        load = run_load_test(Processes(), describe_device(volume.path), [(0, 128)], 1, random.Random(1))
        assert load["fio"]["reads"] > 0


@pytest.mark.parametrize("output", ["no json", '{"jobs": []}', '{"jobs": [{"error": 5, "read": {}}]}'])
def test_fio_without_a_result_is_a_failure(programs: ScriptedProcesses, output: str) -> None:
    programs.on("fio", answer=output)
    with pytest.raises(BenchmarkFailed):
        _run_fio(programs, "log", 1)


def test_the_load_stays_inside_the_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log"
    _write_read_list(str(path), "/dev/x", [(3, 1), (10, 2)], random.Random(1))
    lines = path.read_text().splitlines()
    offsets = [int(line.split()[2]) for line in lines if " read " in line]
    assert lines[:3] == ["fio version 2 iolog", "/dev/x add", "/dev/x open"]
    assert {offset // BLOCK_BYTES for offset in offsets} == {3, 10, 11}
    assert all(offset % 16384 == 0 for offset in offsets)


class SlowToStart(Processes):
    """A host where everything else takes its time: fio is not there yet when the seconds of the load are over."""

    def start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        self.beside = super().start(argv)
        return self.beside

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "fio":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.beside.wait(timeout=2)
        return super().run(argv, **options)


@pytest.mark.real
def test_a_load_that_begins_late_is_seen_by_iostat_all_the_same(host: Host) -> None:
    volume = host.volume(64 * MIB)
    load = run_load_test(SlowToStart(), describe_device(volume.path), [(0, 128)], 1, random.Random(1))
    assert load["fio"]["reads"] > 0
    assert load["iostat"]["r/s"] > 0


def device(name: str) -> BlockDevice:
    return BlockDevice(f"/dev/{name}", 259, 1, 1 << 30, name)


def test_nvme_statistics_are_taken_as_deltas_where_there_are_any(programs: ScriptedProcesses) -> None:
    programs.on("nvme", answer=json.dumps({"total_read_ops": 5, "ebs_volume_performance_exceeded_iops": 7}))
    before = nvme_counters(programs, "nvme1n1")
    assert nvme_delta(before, {"total_read_ops": 9, "ebs_volume_performance_exceeded_iops": 7}) == {
        "total_read_ops": 4,
        "ebs_volume_performance_exceeded_iops": 0,
    }
    assert nvme_counters(programs, "loop3") is None
    assert nvme_delta(None, before) is None
