"""What may happen to a function: refused calls, lost answers, crashes, and calls that land late.

`hit` is called at the moment of the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.workflows.functions import Functions, Interference, Invocation, Killed


def _nothing() -> None:
    return None


@dataclass
class AtCall(Interference):
    """Base: one call of the invocation, by its number or by its name (the first of that name).

    Given to several invocations it is for the first of them that makes the call; with `always` for all of them.
    With `of` it is the first call that has this argument.
    """

    at: int | str = 0
    hit: Callable[[], None] = field(default=_nothing)
    always: bool = False
    done: bool = False
    of: object = None

    def is_it(self, invocation: Invocation, call: str) -> bool:
        if self.done and not self.always:
            return False
        found = call == self.at if isinstance(self.at, str) else len(invocation.calls) - 1 == self.at
        if self.of is not None:
            found = found and self.of in invocation.given
        if found:
            self.done = True
            self.hit()
        return found


@dataclass
class Each(Interference):
    """All of these happen; `heard` are the calls and their arguments, also of those that were refused."""

    faults: list[Interference] = field(default_factory=list)
    heard: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    def before(self, invocation: Invocation, call: str) -> None:
        self.heard.append((call, invocation.given))
        for fault in self.faults:
            fault.before(invocation, call)

    def after(self, invocation: Invocation, call: str) -> None:
        for fault in self.faults:
            fault.after(invocation, call)


@dataclass
class Down(Interference):
    """Every call of these ports fails after `call_seconds`; without an `error` it is answered after them.

    A function whose time is up meanwhile ends as Lambda ends it.
    """

    ports: tuple[str, ...]
    error: Exception | None
    call_seconds: float = 0.0

    def before(self, invocation: Invocation, call: str) -> None:
        if call.split(".")[0] not in self.ports:
            return
        invocation.elapsed += self.call_seconds
        if invocation.elapsed > invocation.limit_seconds:
            raise Killed("Sandbox.Timedout")
        if self.error is not None:
            raise self.error


@dataclass
class Raises(AtCall):
    """The call is answered with an error of AWS's; nothing was done."""

    error: Exception = field(default_factory=Exception)

    def before(self, invocation: Invocation, call: str) -> None:
        if self.is_it(invocation, call):
            raise self.error


@dataclass
class LosesAnswer(AtCall):
    """The call has its effect; what comes back is an error."""

    error: Exception = field(default_factory=Exception)

    def after(self, invocation: Invocation, call: str) -> None:
        if self.is_it(invocation, call):
            raise self.error


@dataclass
class DiesBefore(AtCall):
    """The function ends right before the call: `Runtime.ExitError` at once, `Sandbox.Timedout` at its limit."""

    error: str = "Runtime.ExitError"

    def before(self, invocation: Invocation, call: str) -> None:
        if self.is_it(invocation, call):
            raise Killed(self.error)


@dataclass
class DiesAfter(AtCall):
    """The function ends right after the call had its effect."""

    error: str = "Runtime.ExitError"

    def after(self, invocation: Invocation, call: str) -> None:
        if self.is_it(invocation, call):
            raise Killed(self.error)


@dataclass
class DiesAtTheEnd(Interference):
    """The function has done everything and does not say so."""

    error: str = "Runtime.ExitError"
    hit: Callable[[], None] = field(default=_nothing)
    always: bool = False
    done: bool = False

    def ended(self, invocation: Invocation) -> None:
        if self.always or not self.done:
            self.done = True
            self.hit()
            raise Killed(self.error)


@dataclass
class LandsLate(AtCall):
    """The function stands still before the call for `seconds`; its caller hears `error` at once, if one is given."""

    functions: Functions | None = None
    seconds: float = 45.0
    error: str | None = None

    @property
    def stands_still(self) -> bool:
        return self.always or not self.done

    def before(self, invocation: Invocation, call: str) -> None:
        if self.is_it(invocation, call) and self.functions is not None:
            if self.error is not None:
                self.functions.loses_answer(invocation, self.error)
            self.functions.stand_still(invocation, self.seconds)


@dataclass
class Followed(AtCall):
    """The call has its effect and its answer, and then it hits."""

    def after(self, invocation: Invocation, call: str) -> None:
        self.is_it(invocation, call)


@dataclass
class Watches(AtCall):
    """Nothing happens to the function; the moment is told."""

    def before(self, invocation: Invocation, call: str) -> None:
        self.is_it(invocation, call)
