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
from peaker_host.prove.knee import summarise_witness
from peaker_host.prove.load_test import (
    _run_fio,
    _write_read_list,
    device_rows,
    nvme_counters,
    nvme_delta,
    run_load_test,
    summarise_iostat,
)

from tests.support.sysstat_json import lacking_row, of_11_7_3, of_12_0_3, of_12_1_4, of_12_2_0, row

DOCUMENTS = {"11.7.3": of_11_7_3, "12.0.3": of_12_0_3, "12.1.4": of_12_1_4, "12.2.0": of_12_2_0}


@pytest.mark.parametrize("version", DOCUMENTS)
def test_await_is_the_mean_over_the_reads_of_every_version_s_complete_reports(version: str) -> None:
    reports = [row(reads=100, kib_per_s=1600, wait_ms=1)], [row(reads=300, kib_per_s=4800, wait_ms=5)]
    document = DOCUMENTS[version](*reports)
    summary = summarise_iostat(document, "nvme1n1")
    assert (summary["r_await"], summary["r/s"], summary["intervals"]) == (4.0, 200.0, 2)
    assert summarise_witness(document, "nvme1n1") == {"r/s": 200.0, "r_await": 4.0, "aqu-sz": 1.6}


def test_idle_intervals_and_other_devices_do_not_count() -> None:
    idle, busy = row(reads=0, kib_per_s=0, wait_ms=0), row(reads=50, kib_per_s=800)
    summary = summarise_iostat(of_12_1_4([idle], [busy], [row("other", wait_ms=99)]), "nvme1n1")
    assert (summary["r_await"], summary["r/s"]) == (0.53, 50.0)


@pytest.mark.parametrize("bad", ["", "{}", of_12_1_4([row("other")]), of_12_1_4([row(reads=0)])])
def test_a_report_that_says_nothing_is_a_failure_not_a_zero(bad: str) -> None:
    with pytest.raises(BenchmarkFailed):
        summarise_iostat(bad, "nvme1n1")


def test_a_report_that_was_cut_is_left_out_and_the_whole_ones_stay() -> None:
    document = of_11_7_3([row()], [row()])
    cut = document[: document.rindex('"r_await"')]
    assert summarise_iostat(cut, "nvme1n1")["intervals"] == 1
    with pytest.raises(BenchmarkFailed, match="saw no read"):
        summarise_iostat(document[: document.index('"r_await"')], "nvme1n1")


def test_sectors_that_are_called_kib_are_halved_and_said() -> None:
    """2,996 reads/s of 16 KiB come as 95,872 rkB/s."""
    summary = summarise_iostat(of_12_2_0([row(kib_per_s=95_872.0)]), "nvme1n1")
    assert (summary["rkB/s"], summary["sectors"]) == (47_936.0, True)
    assert "sectors" not in summarise_iostat(of_12_1_4([row()]), "nvme1n1")


def test_a_row_that_lacks_columns_is_unknown_and_the_other_one_is_read() -> None:
    document = of_12_1_4([row(), lacking_row("nvme2n1")])
    assert [one["disk_device"] for one in device_rows(document)] == ["nvme1n1"]
    assert summarise_iostat(document, "nvme1n1")["r/s"] == 2996.0
    with pytest.raises(BenchmarkFailed, match="nvme2n1"):
        summarise_iostat(document, "nvme2n1")


READ = {"iops": 10.5, "bw": 2048, "total_ios": 5, "runtime": 900, "clat_ns": {"mean": 1e6, "percentile": {}}}


@pytest.mark.parametrize(
    "around",
    [
        "fio: file name {proof} is long\n%s",
        "note: both iodepth >= 1 {and} a sync engine\n%s\nfio: terminating on signal 2\n",
        '{"warning": "not fio\'s own"}\n%s\n{ and more',
    ],
)
def test_fio_s_document_is_found_between_other_words(programs: ScriptedProcesses, around: str) -> None:
    programs.on("fio", answer=around % json.dumps({"jobs": [{"error": 0, "read": READ}]}, indent=2))
    load, took_seconds = _run_fio(programs, "log", 1)
    assert (load["reads"], load["mib_per_s"], took_seconds) == (5, 2.0, 0.9)


NO_LIBAIO = CommandFailed(
    "fio ended with exit code 1: fio: engine libaio not loadable\nfio: failed to load engine"
)


class TestEngines:
    """dnf install fio, on Amazon Linux: libaio is in the package fio-engine-libaio."""

    def test_another_engine_that_keeps_a_queue_is_taken(self, programs: ScriptedProcesses) -> None:
        programs.on("fio", answer=json.dumps({"jobs": [{"error": 0, "read": READ}]}))
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
                self.beside.wait(timeout=1.2)
        return super().run(argv, **options)


@pytest.mark.real
def test_a_load_of_another_engine_that_begins_late_is_seen_by_iostat_all_the_same(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real fio says in its own words which engine it lacks."""
    monkeypatch.setattr("peaker_host.prove.load_test._ENGINES", ("libnone", "libaio"))
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
