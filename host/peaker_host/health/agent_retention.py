"""Sets how long the SSM agent keeps the folder of each command that it ran.

The agent keeps them for 14 days by default (amazon-ssm-agent: 336 hours, at least 8).
check_replicas sends a command a minute, so that would be 20,000 folders on the root volume; 8 hours are 480.
"""

from __future__ import annotations

import json
from typing import Optional

from peaker_host.machine.files import read_json, write_atomically
from peaker_host.machine.settings import Settings

RETENTION_HOURS = 8
FIELD = "RunCommandLogsRetentionDurationHours"
_SECTION = "Ssm"


def kept_hours(settings: Settings) -> Optional[float]:
    """Returns the hours of the agent's configuration; None where the agent's default holds. Raises UnreadableFile."""
    section = (read_json(settings.agent_config) or {}).get(_SECTION)
    hours = section.get(FIELD) if isinstance(section, dict) else None
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or hours <= 0:
        return None
    return float(hours)


def is_short(hours: Optional[float]) -> bool:
    """Tells whether folders are kept for RETENTION_HOURS or less."""
    return hours is not None and hours <= RETENTION_HOURS


def shorten_retention(settings: Settings) -> None:
    """Writes RETENTION_HOURS into the agent's configuration unless it keeps them for less; the rest of that file stays.

    It counts from the agent's next start. Raises UnreadableFile.
    """
    if is_short(kept_hours(settings)):
        return
    content = read_json(settings.agent_config) or {}
    section = content.get(_SECTION)
    changed = {**(section if isinstance(section, dict) else {}), FIELD: RETENTION_HOURS}
    write_atomically(settings.agent_config, json.dumps({**content, _SECTION: changed}, indent=4) + "\n")
