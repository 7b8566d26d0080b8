"""One forbidden call of one role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """`call` gets a client of the botocore service `api`. `someones_job` is a call that another role has to make, or
    one that differs from it in what only that role's own policy names: the boundary of all roles lets it through."""

    what: str
    api: str
    call: Callable[[Any], object]
    someones_job: bool = False

    @property
    def bounded(self) -> bool:
        return not self.someones_job
