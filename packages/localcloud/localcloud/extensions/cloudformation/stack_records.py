"""A stack and its resources, as CloudFormation shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from localcloud.extensions.cloudformation.resource_type import Made


class StackFailed(Exception):
    """A resource could not be made, changed or deleted."""


@dataclass
class StackResource:
    """One resource of a stack, as it was made."""

    logical_id: str
    type: str
    made: Made | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    status: str = ""
    reason: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None


@dataclass
class Stack:
    """A stack and its history."""

    name: str
    id: str
    template: dict[str, Any]
    tags: list[dict[str, str]]
    created: datetime
    protected: bool = False
    status: str = ""
    reason: str = ""
    updated: datetime | None = None
    deleted: datetime | None = None
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: list[dict[str, str]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
