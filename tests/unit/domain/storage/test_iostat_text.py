"""Every form in which iostat -x prints, and what people do to it before they paste it."""

from __future__ import annotations

import json

import pytest
from iostat_fixtures import NAMES, recorded
from peaker.domain.storage.io_findings import DeviceLoad, since_boot_left_out
from peaker.domain.storage.iostat_columns import IostatFormatError
from peaker.domain.storage.iostat_text import read_iostat

OLD_SECTORS = """\
Linux 2.6.18 (db1)  11/21/2009

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           4.00    1.00    2.00   13.00    0.50   79.50

Device:  rrqm/s  wrqm/s  r/s  w/s  rsec/s  wsec/s avgrq-sz avgqu-sz  await svctm %util
sda        0.00    0.00 100.00 0.00 3200.00  0.00    32.00     1.00  10.00  9.90 99.00

avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           5.00    0.00    2.00   13.00    0.00   80.00

Device:  rrqm/s  wrqm/s  r/s  w/s  rsec/s  wsec/s avgrq-sz avgqu-sz  await svctm %util
sda        0.00    0.00 200.00 0.00 6400.00  0.00    32.00     2.00  10.00  5.00 100.00
"""
SYSSTAT_10 = """\
Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 100.00 50.00 1600.00 800.00 32.00 1.50 10.00 12.00 6.00 5.00 75.00
"""
SYSSTAT_12_0 = """\
Device r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util
sda 100.00 50.00 1600.00 800.00 0.00 0.00 0.00 0.00 12.00 6.00 1.50 16.00 16.00 5.00 75.00
"""
SYSSTAT_12_6 = """\
Linux 6.1.0 (db1)  2026-11-21  _x86_64_  (2 CPU)

03:07:35
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz \
    d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
nvme1n1        100.00   1600.00     0.00   0.00   12.00    16.00   50.00    800.00     3.00  31.78    6.00    16.00 \
  12.99 110453.93    10.59  44.92    8.44  8506.27   38.56    0.58    1.50  75.00
"""
PRETTY = """\
     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device
  100.00      1.6M     0.04   0.1%   12.00    16.0k vda
   10.00    160.0k     0.04   0.1%    1.00    16.0k vdb

     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device
   50.00    800.0k    48.86  31.8%    6.00    16.0k vda
    0.00      0.0k     0.00   0.0%    0.00     0.0k vdb

     f/s f_await  aqu-sz  %util Device
   38.56    0.58    1.50  75.0% vda
    0.00    0.00    0.01   1.0% vdb
"""


def only(text: str) -> DeviceLoad:
    (report,) = read_iostat(text).reports
    (load,) = report.devices
    return load


@pytest.mark.parametrize("name", NAMES)
def test_every_recording_is_read_to_its_last_row(name: str) -> None:
    assert all(report.devices for report in recorded(name))


@pytest.mark.parametrize(
    ("name", "reports", "devices"),
    [("local-disk-small-file-1s", 46, {"sda1", "sdb"}), ("local-disk-all-tests-5s", 145, {"sda1", "sdb"})],
)
def test_rows_cut_out_with_grep_are_told_apart_by_the_device_that_comes_again(
    name: str, reports: int, devices: set[str]
) -> None:
    found = recorded(name)
    assert len(found) == reports
    assert all({load.device for load in report.devices} == devices for report in found)


def test_column_names_that_ran_into_each_other_and_megabytes() -> None:
    (report,) = recorded("ebs-piops-2000-50-threads")
    load = report.device("xvdl")
    assert load is not None
    assert (load.reads_per_s, load.writes_per_s, load.queue, load.await_ms) == (1498.5, 0.0, 86.17, 57.05)
    assert load.mib_per_s == pytest.approx(36.63)
    assert load.request_kib == pytest.approx(50.06 / 2)


def test_prose_around_a_pasted_heading_is_passed_over() -> None:
    pasted = "20 threads: Device: rrqm/s wrqm/sr/sw/s rMB/s wMB/s avgrq-sz avgqu-sz await svctm %util xvdk 0.00 0.00"
    pasted += " 1059.50 0.00 26.37 0.00 50.98 55.39 51.97 0.94 100.00 We see 55 requests"
    assert only(pasted).queue == 55.39


@pytest.mark.parametrize("text", [SYSSTAT_12_0, SYSSTAT_12_6])
def test_the_mean_wait_of_newer_versions_is_weighted_from_its_parts(text: str) -> None:
    load = only(text)
    assert load.await_ms == pytest.approx((100 * 12 + 50 * 6) / 150)
    assert (load.queue, load.requests_per_s, load.kib_per_s, load.request_kib) == (1.5, 150.0, 2400.0, 16.0)


@pytest.mark.parametrize("text", [OLD_SECTORS.splitlines()[6], SYSSTAT_10, SYSSTAT_12_0, SYSSTAT_12_6])
def test_without_its_heading_a_row_reads_the_same(text: str) -> None:
    row = text.splitlines()[-1]
    with_heading = only(text if text != row else f"{OLD_SECTORS.splitlines()[5]}\n{row}")
    without = only(row)
    assert (without.kib_per_s, without.await_ms, without.queue) == (
        with_heading.kib_per_s,
        with_heading.await_ms,
        with_heading.queue,
    )


def test_pretty_output_with_units_and_the_name_at_the_end_is_one_report() -> None:
    (report,) = read_iostat(PRETTY).reports
    load = report.device("vda")
    assert load is not None
    assert load.kib_per_s == pytest.approx(1.6 * 1024 + 800)
    assert (load.await_ms, load.queue, load.merged_writes_per_s) == (10.0, 1.5, 48.86)


def test_json_says_the_same_as_text() -> None:
    disk = {
        "disk_device": "nvme1n1",
        "r/s": 100,
        "w/s": 50,
        "rkB/s": 1600,
        "wkB/s": 800,
        "r_await": 12,
        "w_await": 6,
    }
    disk.update({"rareq-sz": 16, "wareq-sz": 16, "aqu-sz": 1.5, "util": 75, "wrqm/s": 3, "wrqm": 31.78})
    text = json.dumps({"sysstat": {"hosts": [{"statistics": [{"avg-cpu": {"idle": 80}, "disk": [disk]}]}]}})
    from_json, from_text = only(text), only(SYSSTAT_12_6)
    assert (
        from_json.await_ms,
        from_json.kib_per_s,
        from_json.util_percent,
        from_json.merged_writes_per_s,
    ) == (
        from_text.await_ms,
        from_text.kib_per_s,
        from_text.util_percent,
        from_text.merged_writes_per_s,
    )


def test_processors_belong_to_the_report_that_follows_them() -> None:
    first, second = read_iostat(OLD_SECTORS).reports
    assert first.cpu is not None
    assert second.cpu is not None
    assert (first.cpu.iowait, first.cpu.idle, second.cpu.idle) == (13.0, 79.5, 80.0)


def test_the_mean_since_boot_is_left_out_of_every_run_that_goes_on() -> None:
    two_runs = read_iostat(OLD_SECTORS + OLD_SECTORS).reports
    assert [report.number for report in since_boot_left_out(two_runs)] == [2, 4]
    assert len(since_boot_left_out(read_iostat(SYSSTAT_10).reports)) == 1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "no report"),
        ("nothing of the kind\n\n", 2, "no report"),
        (SYSSTAT_10 + "sdb 0.00 0.00 1.00 1.00\n", 3, "4 numbers, its heading names 13"),
        ("Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn\nsda 1 2 3 4 5", 1, "without -x"),
        ("sda 1 2 3 4 5", 1, "no version of iostat -x prints 5 numbers"),
        ("Device r/s w/s rkB/s wkB/s %util\nsda 1 2 3 4 5", 2, "no queue"),
        ('{"sysstat": {"hosts": [\n{"statistics": [', 2, "not JSON"),
        ('{"load": 1}', 1, "not of iostat"),
    ],
)
def test_input_that_is_not_iostat_is_named_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(IostatFormatError, match=said) as raised:
        read_iostat(text)
    assert raised.value.line == line
