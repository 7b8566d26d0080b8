"""A machine that is too small for the demo is told so before the day begins."""

from __future__ import annotations

import pytest

from demo.memory import MEMINFO, why_short

SMALL = "MemTotal:        4025344 kB\nMemFree:          512000 kB\nMemAvailable:    3145728 kB\n"


def test_what_is_available_and_what_it_takes_are_said() -> None:
    said = why_short(SMALL, needed_gib=5)
    assert said is not None
    assert "3.0 GiB of memory and swap are available and the demo takes about 5" in said


@pytest.mark.parametrize(
    "meminfo",
    [
        SMALL.replace("3145728", "5242880"),
        SMALL + "SwapFree:        2097152 kB\n",
        "MemTotal: 4025344 kB\n",
        "",
    ],
)
def test_nothing_is_said_where_it_is_enough_or_unknown(meminfo: str) -> None:
    assert why_short(meminfo, needed_gib=5) is None


def test_this_kernel_says_it() -> None:
    assert why_short(MEMINFO.read_text(), needed_gib=1e9) is not None
