"""What the health responder goes by, stored on the host by start_database."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Dict

from peaker_host.errors import InvalidArgument
from peaker_host.files import read_json, write_json
from peaker_host.settings import Settings


@dataclass(frozen=True)
class HealthPolicy:
    """Good after so many good samples in a row, bad after so many bad ones; the most lag and the least free disk."""

    good_samples: int = 3
    bad_samples: int = 2
    lag_seconds: float = 5.0
    min_free_disk_percent: float = 5.0


def parse_policy(text: str) -> Dict[str, Any]:
    """The policy's fields out of JSON. Raises InvalidArgument that names the wrong one."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"health: not JSON: {error}") from error
    known = {field.name for field in fields(HealthPolicy)}
    if not isinstance(content, dict):
        raise InvalidArgument("health: must be a JSON object")
    for name, value in content.items():
        if name not in known:
            raise InvalidArgument(f"health: unknown field {name!r}; known are {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise InvalidArgument(f"health: {name} must be a number of at least 0, not {value!r}")
        if name.endswith("_samples") and (not isinstance(value, int) or value < 1):
            raise InvalidArgument(f"health: {name} must be a whole number of at least 1, not {value!r}")
    return content


def store_policy(settings: Settings, policy: Dict[str, Any]) -> None:
    """Keep it; an empty one keeps what is there."""
    if policy:
        write_json(settings.health_policy_file, policy)


def load_policy(settings: Settings) -> HealthPolicy:
    """The stored policy; defaults where nothing was stored."""
    return HealthPolicy(**(read_json(settings.health_policy_file) or {}))
