"""How long the SSM agent keeps the folders of commands, of which check_replicas sends one a minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host
from peaker_host.health.unit import is_short, kept_hours, shorten_retention


def config(host: Host) -> Path:
    return Path(host.settings.agent_config)


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        {
            "Ssm": {"RunCommandLogsRetentionDurationHours": 336, "Endpoint": "vpce"},
            "Mds": {"CommandWorkersLimit": 5},
        },
    ],
    ids=["no file", "an empty one", "the owner's own"],
)
def test_eight_hours_are_written_and_everything_else_of_the_owner_stays(
    host: Host, written: dict[str, Any] | None
) -> None:
    if written is not None:
        config(host).parent.mkdir(parents=True, exist_ok=True)
        config(host).write_text(json.dumps(written))
    assert not is_short(kept_hours(host.settings))
    shorten_retention(host.settings)
    found = json.loads(config(host).read_text())
    before = written or {}
    assert found == {**before, "Ssm": {**before.get("Ssm", {}), "RunCommandLogsRetentionDurationHours": 8}}
    assert is_short(kept_hours(host.settings))
