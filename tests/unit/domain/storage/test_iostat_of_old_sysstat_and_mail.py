"""iostat's output as old versions of sysstat end it, and as mail programs leave it."""

from __future__ import annotations

import pytest
from peaker.domain.storage.iostat_text import read_iostat

from tests.support.sysstat_json import of_11_7_3, of_12_0_3, of_12_1_4, of_12_2_0, row

HEADING = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await"
HEADING_REST = "wareq-sz  aqu-sz  %util"
ROW = "nvme1n1       2996.00  47936.00     0.00   0.00    0.53    16.00    0.00      0.00     0.00   0.00    0.00"
ROW_REST = "0.00    1.60  99.60"
SDB = "nvme2n1          1.00      4.00     0.00   0.00    0.20     4.00    0.00      0.00     0.00   0.00    0.00"
PLAIN = f"{HEADING} {HEADING_REST}\n{ROW} {ROW_REST}\n{SDB} {ROW_REST}\n\n"


@pytest.mark.parametrize("version", [of_11_7_3, of_12_0_3, of_12_1_4, of_12_2_0])
def test_documents_that_are_not_closed_or_have_a_lone_comma_are_read(version: object) -> None:
    found = read_iostat(version([row()], [row()]))  # type: ignore[operator]
    assert [report.devices[0].reads_per_s for report in found.reports] == [2996.0, 2996.0]


def test_sectors_in_columns_named_after_kib_are_halved_and_said() -> None:
    found = read_iostat(of_12_2_0([row(kib_per_s=95_872.0)], [row()]))
    assert [report.devices[0].kib_per_s for report in found.reports] == [47_936.0, 47_936.0]
    assert found.notes == (
        "amounts came in sectors (sysstat 12.1.2 to 12.2.0) and are taken from rate x request size, in 1 of 2 reports",
    )


def _wrapped() -> str:
    return f"{HEADING}\n{HEADING_REST}\n{ROW}\n{ROW_REST}\n{SDB}\n{ROW_REST}\n\n"


@pytest.mark.parametrize(
    "mailed",
    [
        _wrapped(),
        "".join(f"> {line}\n" for line in PLAIN.splitlines()),
        "".join(f">> {line}\n" for line in _wrapped().splitlines()),
        "".join(f"> > {line}\n" for line in PLAIN.splitlines()),
        "Somebody wrote:\n" + "".join(f"> {line}\n" for line in PLAIN.splitlines()) + "\nThanks!\n",
        f"{HEADING} =\n{HEADING_REST}\n{ROW} =\n{ROW_REST}\n{SDB} =\n{ROW_REST}\n\n",
        PLAIN.replace("rkB/s", "rkB=\n/s").replace("47936.00", "4793=\n6.00"),
        PLAIN.replace("Device  ", "Device=20=20"),
        "".join(f"# {line}\n" for line in PLAIN.splitlines()),
        "".join(f"#{line}\n" for line in _wrapped().splitlines()),
    ],
    ids=["wrapped", "quoted", "quoted-twice-and-wrapped", "quoted-twice", "in-a-letter", "soft-breaks", "within-words",
         "spaces-encoded", "commented", "commented-and-wrapped"],
)  # fmt: skip
def test_what_mail_did_is_taken_back(mailed: str) -> None:
    assert [
        (load.device, load.reads_per_s, load.kib_per_s, load.queue, load.util_percent)
        for load in read_iostat(mailed).reports[0].devices
    ] == [("nvme1n1", 2996.0, 47936.0, 1.6, 99.6), ("nvme2n1", 1.0, 4.0, 1.6, 99.6)]
