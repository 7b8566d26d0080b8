"""The next version of a workflow: it says the same by more states, of other names where nobody knows them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sim.workflows.walker import Asl

MARK = "Before"


def next_version(machine: Asl) -> Asl:
    """With a Pass before each Task of the outermost level; a version further it stays as it is."""
    states: dict[str, Any] = deepcopy(dict(machine["States"]))
    tasks = [name for name, one in states.items() if one["Type"] == "Task" and f"{MARK}{name}" not in states]
    before = {name: f"{MARK}{name}" for name in tasks}
    for state in states.values():
        _redirect(state, before)
    for name in tasks:
        states[before[name]] = {"Type": "Pass", "Next": name}
    start = machine["StartAt"]
    return {**machine, "StartAt": before.get(start, start), "States": states}


def _redirect(state: dict[str, Any], before: dict[str, str]) -> None:
    for way in (state, *state.get("Choices", []), *state.get("Catch", [])):
        for key in ("Next", "Default"):
            if key in way:
                way[key] = before.get(way[key], way[key])
