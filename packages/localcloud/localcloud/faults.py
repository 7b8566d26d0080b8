"""Failures on request: make a Lambda invocation or an AWS API action fail, before it acts or after.

A target is `<service>:<Action>` as botocore names them (`ec2:CreateVolume`, `elbv2:RegisterTargets`) or
`lambda:<function name or handler name>`, where the handler name is the last part of the handler's module
(`create_volumes`). `after` is the nasty one: the action takes effect, and the caller sees the error.
`duplicate` on `events:<rule name>` delivers each matched event twice, as at-least-once delivery may. `sns:<endpoint>`
is a message that a topic's subscriber never takes,
`events:entry` an entry of PutEvents that fails in an answer without an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

When = Literal["before", "after", "duplicate"]
FIELDS = ("target", "error", "message", "times", "when")


@dataclass
class Fault:
    """One failure to inject. times is how many are left; -1 means until cleared. `on_use` is called with each."""

    target: str
    error: str
    message: str
    times: int
    when: When
    on_use: Callable[[], None] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in FIELDS}


class Faults:
    """The failures asked for, oldest first; safe to use from many threads."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(
        self,
        target: str,
        error: str = "InternalFailure",
        message: str | None = None,
        times: int = 1,
        when: When = "before",
        on_use: Callable[[], None] | None = None,
    ) -> Fault:
        """Ask for a failure. Raises ValueError naming the field that is wrong."""
        service, _, action = str(target).partition(":")
        if not service or not action:
            raise ValueError(f"target: must be <service>:<Action> or lambda:<function>, not {target!r}")
        if isinstance(times, bool) or not isinstance(times, int) or (times < 1 and times != -1):
            raise ValueError(f"times: must be a positive whole number, or -1 for always, not {times!r}")
        if when not in ("before", "after", "duplicate"):
            raise ValueError(f"when: must be before, after or duplicate, not {when!r}")
        if when == "duplicate" and service != "events":
            raise ValueError("when: duplicate is for targets events:<rule name>")
        fault = Fault(target, error, message or f"{error} injected into {target}", times, when, on_use)
        with self._lock:
            self._faults.append(fault)
        return fault

    def add_from(self, document: Mapping[str, Any]) -> Fault:
        """As `add`, from the JSON body of POST /_peaker/faults."""
        unknown = sorted(set(document) - set(FIELDS))
        if unknown:
            raise ValueError(f"{unknown[0]}: unknown field; there are {', '.join(FIELDS)}")
        if "target" not in document:
            raise ValueError("target: required")
        return self.add(**{key: document[key] for key in FIELDS if key in document})

    def take(self, *targets: str) -> Fault | None:
        """The first failure asked for any of these targets, counted as used."""
        wanted = {target.lower() for target in targets}
        with self._lock:
            used = next(
                (one for one in self._faults if one.target.lower() in wanted and one.times != 0), None
            )
            if used is not None and used.times > 0:
                used.times -= 1
        if used is not None and used.on_use is not None:
            used.on_use()
        return used

    def all(self) -> list[Fault]:
        """Failures that are still to come."""
        with self._lock:
            return [fault for fault in self._faults if fault.times != 0]

    def clear(self) -> int:
        """Forget them all; returns how many were still to come."""
        pending = len(self.all())
        with self._lock:
            self._faults.clear()
        return pending
