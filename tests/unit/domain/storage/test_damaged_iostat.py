"""Outputs of iostat that were cut, overwritten or mistaken: what is whole is kept, the rest is named by its line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peaker.domain.storage.iostat_columns import IostatFormatError
from peaker.domain.storage.iostat_text import read_iostat

HEADING = (
    "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz aqu-sz %util"
)
ROW = "{} 100.00 1600.00 0.00 0.00 1.00 16.00 10.00 160.00 0.00 0.00 2.00 16.00 0.12 10.00"


def text_report(*devices: str) -> str:
    rows = "\n".join(ROW.format(name) for name in devices or ("nvme0n1", "nvme1n1"))
    return f"{HEADING}\n{rows}\n\n"


def json_entry(**changes: Any) -> dict[str, Any]:
    disk = {
        "disk_device": "nvme1n1", "r/s": 100.0, "w/s": 10.0, "rkB/s": 1600.0, "wkB/s": 160.0, "r_await": 1.0,
        "w_await": 2.0, "aqu-sz": 0.12, "util": 10.0, **changes,
    }  # fmt: skip
    return {"disk": [disk]}


def document(*entries: Any) -> str:
    host = {"nodename": "db", "statistics": list(entries)}
    return json.dumps({"sysstat": {"hosts": [host]}}, indent=1)


LINUX = "Linux 6.1.0 (db)\t11/21/26\t_x86_64_\t(2 CPU)\n\n"
TEXT = LINUX + text_report() * 3
JSON = document(json_entry(), json_entry(), json_entry())
THIRD_ENTRY = JSON.rindex('"disk"')

# What the input is, how many complete reports are kept, what is said of the rest.
CUT: dict[str, tuple[str, int, str]] = {
    "text-cut-in-a-device-name": (TEXT[: TEXT.rindex("nvme1n1") + 4], 2, "ends inside a report"),
    "text-cut-after-three-numbers": (TEXT[: TEXT.rindex("nvme1n1") + 25], 2, "ends inside a report"),
    "text-cut-in-the-second-row": (TEXT[: TEXT.rindex("nvme0n1") + 55], 2, "its heading names 14 columns"),
    "text-row-with-a-number-lost": (TEXT.replace(" 2.00 ", " ", 5).replace(" ", " ") , 0, "13 numbers"),
    "text-middle-overwritten": (
        LINUX + text_report() + text_report().replace("0.12", "") + text_report(), 1, "13 numbers"),
    "text-then-another-tool": (
        LINUX + text_report() + "Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn\n", 1, "ran without -x"),
    "text-then-rows-of-another-version": (
        LINUX + text_report() + "nvme0n1 1.0 2.0 3.0 4.0 5.0 6.0\n", 1, "6 numbers"),
    "json-cut-in-a-key": (JSON[: THIRD_ENTRY + 3], 2, "not JSON"),
    "json-cut-after-an-entry": (JSON[: JSON.rindex("]", 0, JSON.rindex("]"))], 3, "not JSON"),
    "json-with-a-comma-lost": (JSON[:THIRD_ENTRY] + JSON[THIRD_ENTRY:].replace(",", "", 1), 2, "not JSON"),
    "json-with-text-behind-it": (JSON + "Killed\n", 3, "not JSON: Extra data"),
    "json-two-documents-in-one-file": (JSON + "\n" + JSON, 6, "not JSON: Extra data"),
    "json-with-a-third-entry-of-text": (document(json_entry(), json_entry(), "x"), 2, "report 3 of the document"),
    "json-with-a-third-entry-without-queue": (
        document(json_entry(), json_entry(), json_entry(**{"aqu-sz": None})), 2, "report 3 of the document"),
    "json-with-a-value-of-text": (
        document(json_entry(), json_entry(util="ten")), 1, "report 2 of the document"),
}  # fmt: skip
NOTHING: dict[str, tuple[str, str]] = {
    "empty": ("", "no report of iostat -x"),
    "only-the-banner": (LINUX, "no report of iostat -x"),
    "prose": ("the disk is slow since Tuesday\n", "no report of iostat -x"),
    "binary": ("\x7fELF\x02\x01\x01\x00\ufffd\ufffd", "no report of iostat -x"),
    "vmstat": (" r  b   swpd   free\n 1  0      0 812345\n", "no report of iostat -x"),
    "iostat-without-x": (
        "Device tps kB_read/s kB_wrtn/s kB_dscd/s kB_read kB_wrtn kB_dscd\n",
        "ran without -x",
    ),
    "json-cut-in-the-first-entry": (JSON[: JSON.index("160.0")], "not JSON"),
    "json-of-something-else": ('{"disks": []}', "not of iostat -x -o JSON"),
    "json-without-disks": (document({"avg-cpu": "busy"}), "report 1 of the document"),
    "json-of-null": ('{"sysstat": {"hosts": null}}', "not of iostat -x -o JSON"),
}


@pytest.mark.parametrize("name", [name for name in CUT if CUT[name][1]])
def test_reports_before_the_damage_are_kept_and_the_damage_is_named(name: str) -> None:
    text, kept, said = CUT[name]
    found = read_iostat(text)
    assert [len(found.reports), bool(found.damage)] == [kept, True]
    assert found.damage is not None
    assert said in found.damage.message
    for report in found.reports:
        assert report.device("nvme1n1") is not None


@pytest.mark.parametrize("name", [*NOTHING, *(name for name in CUT if not CUT[name][1])])
def test_without_one_complete_report_it_is_refused_with_the_line(name: str) -> None:
    text, said = NOTHING.get(name) or (CUT[name][0], CUT[name][2])
    with pytest.raises(IostatFormatError, match=r"line \d+: ") as refused:
        read_iostat(text)
    assert said in refused.value.message


@pytest.mark.parametrize(
    "text",
    [TEXT, TEXT.rstrip(), TEXT.replace("\n", "\r\n"), JSON, LINUX + text_report() + text_report("nvme1n1")],
)
def test_a_whole_output_has_no_damage(text: str) -> None:
    assert read_iostat(text).damage is None
