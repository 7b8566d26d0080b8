"""Whether the machine has the memory for the day: the kernel would kill what is largest, a database, in the middle."""

from __future__ import annotations

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
# Four MySQL servers take 1.6 GiB, sixty warm functions 1.8, the local cloud half a one; the rest is for the page cache.
NEEDED_GIB = 5.0
_KIB_PER_GIB = 1024.0**2


def why_short(meminfo: str, needed_gib: float = NEEDED_GIB) -> str | None:
    """A sentence where less is available than is needed, from the text of /proc/meminfo (proc(5)), swap counted; None
    where it is enough, or the kernel does not say."""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    if "MemAvailable" not in kib:
        return None
    free = (kib["MemAvailable"] + kib.get("SwapFree", 0)) / _KIB_PER_GIB
    if free >= needed_gib:
        return None
    return (
        f"{free:.1f} GiB of memory and swap are available and the demo takes about {needed_gib:g}: the kernel may kill "
        "its databases; end other programs, or add swap"
    )
