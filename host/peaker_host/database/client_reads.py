"""Client statements a second over the whole time since the last look, from the server's own counters.

The counters of the last look are kept in a file, so that nothing between two looks is missed. A server that started
anew since, or counters that fell, leave that time unknown: a rate of a part would be too small.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple

from peaker_host.database.client_statements import NOT_COUNTED, read_counters
from peaker_host.database.mysql_client import MysqlClient, status_text
from peaker_host.machine.errors import HostError, UnreadableFile
from peaker_host.machine.files import boot_id, read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import MISFITS, decoded

# A second look so soon after the first one tells the same: a repeated command, or two checks side by side.
SHORTEST_WINDOW_SECONDS = 5.0
# Uptime is in whole seconds, read a moment before the clock.
_SAME_START_SECONDS = 3.0
_BEGUN = "counting begins with this look: it is the first, or the server or the machine started anew"
_FILE = "client_reads.json"


@dataclass(frozen=True)
class Look:
    """Counters at a moment, in seconds since the machine `boot_id` booted, and the rate that was told then."""

    boot_id: str
    at_seconds: float
    server_started_seconds: float
    statements: int
    reads_per_second: Optional[float] = None


def reads_since(last: Optional[Look], now: Look) -> Tuple[Look, Optional[float]]:
    """Returns the look to keep, and the statements a second since the last one; None where they are unknown. Pure."""
    if last is None or last.boot_id != now.boot_id or now.at_seconds < last.at_seconds:
        return now, None
    moved_seconds = abs(now.server_started_seconds - last.server_started_seconds)
    if moved_seconds > _SAME_START_SECONDS or now.statements < last.statements:
        return now, None
    elapsed_seconds = now.at_seconds - last.at_seconds
    if elapsed_seconds < SHORTEST_WINDOW_SECONDS:
        return last, last.reads_per_second
    rate = round((now.statements - last.statements) / elapsed_seconds, 4)
    return Look(**{**asdict(now), "reads_per_second": rate}), rate


def measure_reads(settings: Settings, client: MysqlClient) -> Dict[str, Any]:
    """Client statements a second since the last look; None where that cannot be known, and then why."""
    try:
        now = _look(client)
        if now is None:
            return {"reads_per_second": None, "reads_unknown": NOT_COUNTED}
        kept, rate = reads_since(_stored(settings), now)
        write_json(settings.state_path(_FILE), asdict(kept))
    except (OSError, HostError, *MISFITS) as error:
        return {"reads_per_second": None, "reads_unknown": f"{type(error).__name__}: {error}"}
    return {"reads_per_second": rate, "reads_unknown": _BEGUN if rate is None else ""}


def _look(client: MysqlClient) -> Optional[Look]:
    uptime_seconds = float(status_text(client, "Uptime"))
    counters = read_counters(client)
    if counters is None:
        return None
    at = time.clock_gettime(time.CLOCK_BOOTTIME)
    return Look(boot_id(), at, at - uptime_seconds, counters.statements)


def _stored(settings: Settings) -> Optional[Look]:
    try:
        stored: Look = decoded(Look, read_json(settings.state_path(_FILE)) or {})
        return stored
    except (UnreadableFile, *MISFITS):
        return None
