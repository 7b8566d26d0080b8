"""Sets how long the SSM agent keeps the folder of each command that it ran.

The agent keeps them for 14 days by default (amazon-ssm-agent: 336 hours, at least 8).
check_replicas sends a command a minute, so that would be 20,000 folders on the root volume; 8 hours are 480.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Union

from peaker_host.donor.administrator import PREPARE
from peaker_host.donor.base_step import DONE, WARNING, Step
from peaker_host.machine.files import read_json, write_atomically
from peaker_host.machine.settings import Settings

STEP = "agent retention"
RETENTION_HOURS = 8
_SECTION, _FIELD = "Ssm", "RunCommandLogsRetentionDurationHours"
_FROM_THEN = "it counts from the agent's next start: systemctl restart amazon-ssm-agent"


def look_at_retention(settings: Settings) -> Union[str, Step]:
    """Return whether the agent's configuration keeps the folders of commands for RETENTION_HOURS or less."""
    hours = _hours(read_json(settings.agent_config) or {})
    if hours is not None and hours <= RETENTION_HOURS:
        return f"{settings.agent_config}: {_FIELD} {hours:g}"
    kept = "14 days (the agent's default)" if hours is None else f"{hours:g} hours"
    return Step(STEP, WARNING, f"the folder of each command is kept for {kept}", PREPARE)


def shorten_retention(settings: Settings) -> Union[str, Step]:
    """Write the retention into the agent's configuration; everything else in that file stays."""
    found = look_at_retention(settings)
    if isinstance(found, str):
        return found
    content = read_json(settings.agent_config) or {}
    section = content.get(_SECTION)
    changed = {**(section if isinstance(section, dict) else {}), _FIELD: RETENTION_HOURS}
    write_atomically(settings.agent_config, json.dumps({**content, _SECTION: changed}, indent=4) + "\n")
    return Step(STEP, DONE, f"{settings.agent_config}: {_FIELD} {RETENTION_HOURS}; {_FROM_THEN}")


def _hours(content: Dict[str, Any]) -> "float | None":
    section = content.get(_SECTION)
    hours = section.get(_FIELD) if isinstance(section, dict) else None
    return (
        float(hours)
        if isinstance(hours, (int, float)) and not isinstance(hours, bool) and hours > 0
        else None
    )
