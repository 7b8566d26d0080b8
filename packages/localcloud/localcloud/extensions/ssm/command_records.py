"""A command, its invocation on each host, and the run of each of its document's steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from localcloud.dataplane import RunningCommand
from localcloud.extensions.ssm.command_document import (
    BoundDocument,
    Step,
)

NOT_STARTED = -1


@dataclass
class StepRun:
    """How one step goes on one host."""

    step: Step
    status: str = "Pending"
    details: str = "Pending"
    response_code: int = NOT_STARTED
    stdout: str = ""
    stderr: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass
class Invocation:
    """A command on one host."""

    instance_id: str
    steps: list[StepRun]
    visible_at: float
    status: str = "Pending"
    details: str = "Pending"
    cancelled: bool = False
    running: RunningCommand | None = None


@dataclass
class Command:
    """One SendCommand."""

    command_id: str
    document: BoundDocument
    request: Mapping[str, Any]
    requested_at: datetime
    delivery_seconds: int
    invocations: list[Invocation] = field(default_factory=list)
