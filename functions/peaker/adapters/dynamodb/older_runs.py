"""Runs that were opened before each part had an attribute of its own: all was in one document, `facts`.

Needed while such a run may be at work: an execution of scale_out lasts three days at most, its roll_back one more. Four
days after the last environment was upgraded nothing reads the parts of those runs, and this module can go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from peaker.domain.decoding import parsed_json


def parts_of_facts(item: Mapping[str, Any]) -> dict[str, str]:
    """Parts by their ledger_name, as JSON, from the run's row; empty for a run that has no such document."""
    facts = parsed_json(item.get("facts", "{}"))
    parts: dict[str, Any] = {
        name: facts[name]
        for name in ("donor", "source", "block_list", "storage_looks", "disposal", "quiet")
        if facts.get(name)
    }
    if replica := facts.get("replica"):
        parts["replica"] = {
            "instance_id": replica["instance_id"],
            "builder": replica.get("run_id", item["run_id"]),
            "running_since": replica["launched_at"],
        }
        if "zone" in replica:
            parts["placement"] = {"zone": replica["zone"]}
    if ramp := facts.get("ramp"):
        parts["ramp"] = {"share_since": ramp["since"], **ramp}
    if stopped := facts.get("database_stopped"):
        parts["database_stop"] = stopped
    if left_at := facts.get("left_endpoint_at"):
        parts["endpoint_exit"] = {"at": left_at}
    if gib := facts.get("planned_gib"):
        parts["first_set_size"] = {"gib": gib}
    return {name: json.dumps(value) for name, value in parts.items()}
