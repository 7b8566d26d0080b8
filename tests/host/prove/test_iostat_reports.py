"""What the storage proof makes of the JSON of old sysstat, and of fio's output with words around it."""

from __future__ import annotations

import json

import pytest
from host_bench import ScriptedProcesses
from peaker_host.machine.errors import BenchmarkFailed
from peaker_host.prove.knee import summarise_witness
from peaker_host.prove.load_test import _run_fio, device_rows, summarise_iostat

from tests.support.sysstat_json import lacking_row, of_11_7_3, of_12_0_3, of_12_1_4, of_12_2_0, row

DOCUMENTS = {"11.7.3": of_11_7_3, "12.0.3": of_12_0_3, "12.1.4": of_12_1_4, "12.2.0": of_12_2_0}


@pytest.mark.parametrize("version", DOCUMENTS)
def test_the_complete_reports_of_every_version_count(version: str) -> None:
    document = DOCUMENTS[version]([row(reads=100, kib_per_s=1600)], [row(reads=300, kib_per_s=4800)])
    assert summarise_iostat(document, "nvme1n1")["r/s"] == 200.0
    witness = summarise_witness(document, "nvme1n1")
    assert witness == {"r/s": 200.0, "r_await": 0.53, "aqu-sz": 1.6}


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
    load, _ = _run_fio(programs, "log", 1)
    assert load["reads"] == 5
