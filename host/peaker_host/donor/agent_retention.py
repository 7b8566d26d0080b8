"""The step of prepare_base that sets how long the SSM agent keeps the folder of each command."""

from __future__ import annotations

from typing import Union

from peaker_host.donor.administrator import PREPARE
from peaker_host.donor.base_step import DONE, WARNING, Step
from peaker_host.health import agent_retention
from peaker_host.health.agent_retention import FIELD, RETENTION_HOURS, kept_hours
from peaker_host.machine.settings import Settings

STEP = "agent retention"
_FROM_THEN = "it counts from the agent's next start: systemctl restart amazon-ssm-agent"


def look_at_retention(settings: Settings) -> Union[str, Step]:
    """Returns whether the agent's configuration keeps the folders of commands for RETENTION_HOURS or less."""
    hours = kept_hours(settings)
    if hours is not None and hours <= RETENTION_HOURS:
        return f"{settings.agent_config}: {FIELD} {hours:g}"
    kept = "14 days (the agent's default)" if hours is None else f"{hours:g} hours"
    return Step(STEP, WARNING, f"the folder of each command is kept for {kept}", PREPARE)


def shorten_retention(settings: Settings) -> Union[str, Step]:
    """Makes it RETENTION_HOURS where it is more."""
    found = look_at_retention(settings)
    if isinstance(found, str):
        return found
    agent_retention.shorten_retention(settings)
    return Step(STEP, DONE, f"{settings.agent_config}: {FIELD} {RETENTION_HOURS}; {_FROM_THEN}")
