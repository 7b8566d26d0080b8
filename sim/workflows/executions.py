"""One execution, as whoever looks at it sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sim.workflows.virtual_time import Process, Promise
from sim.workflows.walker import Walk


@dataclass
class Execution:
    """One execution; times in seconds of virtual time. `walk.entered` are its states in their order."""

    workflow: str
    name: str
    input: str
    started: float
    arn: str
    machine_arn: str
    walk: Walk
    listed: float
    status: str = "RUNNING"
    ended: float | None = None
    output: Any = None
    error: str = ""
    cause: str = ""
    process: Process | None = None
    children: list[Execution] = field(default_factory=list)
    waiting: Promise = field(default_factory=Promise)

    @property
    def running(self) -> bool:
        return self.status == "RUNNING"

    @property
    def states(self) -> list[str]:
        return self.walk.entered
