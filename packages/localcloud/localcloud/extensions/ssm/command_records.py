"""A command: a document's one step on one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcloud.dataplane import RunningCommand
from localcloud.extensions.ssm.command_document import BoundDocument

NOT_STARTED = -1


@dataclass
class Command:
    """One SendCommand, and how it goes on its host."""

    command_id: str
    document: BoundDocument
    request: Mapping[str, Any]
    requested_at: datetime
    delivery_seconds: int
    instance_id: str
    visible_at: float
    status: str = "Pending"
    details: str = "Pending"
    response_code: int = NOT_STARTED
    stdout: str = ""
    stderr: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    cancelled: bool = False
    running: RunningCommand | None = None
