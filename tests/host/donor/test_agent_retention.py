"""How long the SSM agent keeps the folders of commands, of which check_replicas sends one a minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host
from peaker_host.donor.agent_retention import look_at_retention, shorten_retention
from peaker_host.donor.base_step import DONE, WARNING, Step


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
    looked = look_at_retention(host.settings)
    assert isinstance(looked, Step)
    assert looked.state == WARNING
    made = shorten_retention(host.settings)
    assert isinstance(made, Step)
    assert (made.state, "systemctl restart amazon-ssm-agent" in made.detail) == (DONE, True)
    found = json.loads(config(host).read_text())
    before = written or {}
    assert found == {**before, "Ssm": {**before.get("Ssm", {}), "RunCommandLogsRetentionDurationHours": 8}}
    assert isinstance(shorten_retention(host.settings), str), "a second time changes nothing"
