"""The documents of `iostat -x -y -o JSON -d DEVICE 1`, ended by SIGINT, as versions of sysstat write them."""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = """{"sysstat": {
\t"hosts": [
\t\t{
\t\t\t"nodename": "ip-10-0-0-7",
\t\t\t"sysname": "Linux",
\t\t\t"release": "5.10.0",
\t\t\t"machine": "x86_64",
\t\t\t"number-of-cpus": 2,
\t\t\t"date": "11/28/26",
\t\t\t"statistics": ["""
_TAIL = "\n\t\t\t]\n\t\t}\n\t]\n}}\n"


def row(
    name: str = "nvme1n1",
    reads: float = 2996.0,
    kib_per_s: float = 47936.0,
    more: str = "",
    wait_ms: float = 0.53,
) -> str:
    """One disk's row; reads of 16 KiB."""
    return (
        f'{{"disk_device": "{name}", "r/s": {reads:.2f}, "w/s": 0.00, "rkB/s": {kib_per_s:.2f}, "wkB/s": 0.00, '
        f'"rrqm/s": 0.00, "wrqm/s": 0.00, "rrqm": 0.00, "wrqm": 0.00, "r_await": {wait_ms:.2f}, "w_await": 0.00, '
        f'"aqu-sz": 1.60, "rareq-sz": 16.00, "wareq-sz": 0.00, "svctm": 0.33, "util": 99.60{more}}}'
    )


def lacking_row(name: str) -> str:
    """A row without aqu-sz, r_await and what else the kernel did not count."""
    return f'{{"disk_device": "{name}", "r/s": 12.00, "w/s": 0.00, "rkB/s": 192.00, "wkB/s": 0.00, "util": 0.40}}'


def _report(rows: Sequence[str]) -> str:
    return (
        '\t\t\t\t{\n\t\t\t\t\t"disk": [\n\t\t\t\t\t\t'
        + ",\n\t\t\t\t\t\t".join(rows)
        + "\n\t\t\t\t\t]\n\t\t\t\t}"
    )


def of_11_7_3(*reports: Sequence[str]) -> str:
    """SIGINT ends it after a report and its comma: nothing is closed."""
    return _HEAD + "\n" + "".join(_report(rows) + ",\n" for rows in reports)


def of_12_0_3(*reports: Sequence[str]) -> str:
    """Not closed, and without the comma."""
    return _HEAD + "\n" + ",\n".join(map(_report, reports)) + "\n"


def of_12_1_4(*reports: Sequence[str]) -> str:
    """Closed; the first report that -y leaves out has left its comma."""
    return _HEAD + "\n,\n" + ",\n".join(map(_report, reports)) + _TAIL


def of_12_2_0(*reports: Sequence[str]) -> str:
    """Closed; `rkB/s` holds sectors: the rows are given with twice their amount."""
    return _HEAD + "\n\n" + ",\n".join(map(_report, reports)) + _TAIL
